{{/*
Who may call: the file of --access, and the tokens of the release's own callers. The mounts are whole directories, because a single
file of a Secret would not follow its changes, and daemons and gateways read the files again when they have changed.
*/}}

{{/* Flags of a worker or a manager. Give the root. */}}
{{- define "folio.access.args" -}}
- --access=/etc/folio/access/{{ .Values.access.entry }}
{{- end }}

{{/* The file with the token of a caller. Give its entry, gateway or test. */}}
{{- define "folio.access.token" -}}
/etc/folio/tokens/{{ . }}
{{- end }}

{{- define "folio.access.mount" -}}
- name: access
  mountPath: /etc/folio/access
  readOnly: true
{{- end }}

{{/* Give the root. */}}
{{- define "folio.access.volume" -}}
- name: access
  secret:
    secretName: {{ .Values.access.secret }}
    defaultMode: 0440
{{- end }}

{{- define "folio.access.token.mount" -}}
- name: token
  mountPath: /etc/folio/tokens
  readOnly: true
{{- end }}

{{/* A caller gets its own token alone. Give a dict of root and entry. */}}
{{- define "folio.access.token.volume" -}}
- name: token
  secret:
    secretName: {{ .root.Values.access.tokens }}
    defaultMode: 0440
    items:
      - {key: {{ .entry }}, path: {{ .entry }}}
{{- end }}

{{/* Refusals. Give the root. */}}
{{- define "folio.check.access" -}}
{{- $access := .Values.access -}}
{{- if and $access.secret (not .Values.tls.secret) -}}
{{ fail "access.secret needs tls.secret, because callers send their tokens over encrypted connections alone" }}
{{- end -}}
{{- if and $access.secret (or .Values.gateway.enabled .Values.tests.enabled) (not $access.tokens) -}}
{{ fail "access.secret needs access.tokens, whose entries gateway and test are the tokens of the gateway and of helm test; or switch both off" }}
{{- end -}}
{{- if and $access.tokens (not $access.secret) -}}
{{ fail "access.tokens is of use with access.secret alone" }}
{{- end -}}
{{- end }}
