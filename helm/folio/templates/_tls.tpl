{{/*
Encryption of gRPC. Each container that needs the Secret has its files in the same directory. The mounts are whole directories,
because a single file of a Secret would not follow its changes, and daemons read the files again when they have changed.
*/}}

{{- define "folio.tls.dir" -}}
/etc/folio/grpc-tls
{{- end }}

{{/* Flags of a daemon that listens on TCP. Without a certificate it listens there only if it is told to. Give the root. */}}
{{- define "folio.tls.server.args" -}}
{{- if .Values.tls.secret -}}
- --tls_cert={{ include "folio.tls.dir" . }}/tls.crt
- --tls_key={{ include "folio.tls.dir" . }}/tls.key
{{- if .Values.tls.clientCertificates }}
- --tls_client_ca={{ include "folio.tls.dir" . }}/ca.crt
{{- end }}
{{- else -}}
- --insecure_tcp
{{- end }}
{{- end }}

{{/* Flags of a program that connects to such a daemon. Give a dict of root, and of prefix, with which their names begin. */}}
{{- define "folio.tls.client.args" -}}
{{- $files := printf "--%s_%%s=%s/%%s" .prefix (include "folio.tls.dir" .) -}}
- {{ printf $files "ca" "ca.crt" }}
{{- with .root.Values.tls.serverName }}
- --{{ $.prefix }}_server_name={{ . }}
{{- end }}
{{- if .root.Values.tls.clientCertificates }}
- {{ printf $files "cert" "tls.crt" }}
- {{ printf $files "key" "tls.key" }}
{{- end }}
{{- end }}

{{- define "folio.tls.server.mount" -}}
- name: grpc-tls
  mountPath: {{ include "folio.tls.dir" . }}
  readOnly: true
{{- end }}

{{- define "folio.tls.client.mount" -}}
- name: grpc-tls-client
  mountPath: {{ include "folio.tls.dir" . }}
  readOnly: true
{{- end }}

{{/* Give the root. */}}
{{- define "folio.tls.server.volume" -}}
- name: grpc-tls
  secret:
    secretName: {{ .Values.tls.secret }}
    defaultMode: 0440
{{- end }}

{{/* Callers get the key of the Secret only if they need it. Give the root. */}}
{{- define "folio.tls.client.volume" -}}
- name: grpc-tls-client
  secret:
    secretName: {{ .Values.tls.secret }}
    defaultMode: 0440
    items:
      - {key: ca.crt, path: ca.crt}
      {{- if .Values.tls.clientCertificates }}
      - {key: tls.crt, path: tls.crt}
      - {key: tls.key, path: tls.key}
      {{- end }}
{{- end }}

{{/*
A Service as a caller in the namespace names it. With TLS it is the longer name, which certificates have.
Give a dict of root and name.
*/}}
{{- define "folio.tls.host" -}}
{{ .name }}{{ if .root.Values.tls.secret }}.{{ .root.Release.Namespace }}.svc{{ end }}
{{- end }}

{{/* The protocol of the ports with gRPC, as a Service tells it. Give the root. */}}
{{- define "folio.tls.protocol" -}}
{{ ternary "https" "kubernetes.io/h2c" (ne .Values.tls.secret "") }}
{{- end }}

{{/* The rest of a command with folioctl on a machine outside. Give a dict of root and m. */}}
{{- define "folio.notes.tls" -}}
{{- $tls := .root.Values.tls -}}
{{- if $tls.secret -}}
{{- $name := default (printf "%s.%s.svc" .m.fullname .root.Release.Namespace) $tls.serverName -}}
{{ printf " --tls_ca ca.crt --tls_server_name %s" $name }}
{{- if $tls.clientCertificates }} --tls_cert CERTIFICATE --tls_key KEY{{ end -}}
{{- end -}}
{{- end }}

{{/* Refusals. Give the root. */}}
{{- define "folio.check.tls" -}}
{{- $tls := .Values.tls -}}
{{- if and $tls.clientCertificates (not $tls.secret) -}}
{{ fail "tls.clientCertificates needs tls.secret, whose entry ca.crt has the authorities" }}
{{- end -}}
{{- if and $tls.secret .Values.gateway.enabled (not $tls.serverName) -}}
{{ fail "tls.secret with gateway.enabled needs tls.serverName, a name in the certificate, because gateways connect to 127.0.0.1" }}
{{- end -}}
{{- if and $tls.secret .Values.inferencePool.enabled .Values.inferencePool.appProtocol -}}
{{ fail (printf "inferencePool.appProtocol is %s, which is not encrypted, and tls.secret encrypts the workers' port; make it empty, and tell your gateway to use TLS" .Values.inferencePool.appProtocol) }}
{{- end -}}
{{- end }}
