{{/* The gateway, a container beside a worker. Each takes a dict of root and m. */}}

{{/* The Service through which a gateway reaches the other workers of its node, which have the same manager. */}}
{{- define "folio.gateway.standby" -}}
{{ .m.fullname }}-node
{{- end }}

{{- define "folio.gateway.args" -}}
{{- $gateway := .root.Values.gateway -}}
- --listen={{ .root.Values.listenAddress }}:8000
{{- if .root.Values.metrics.enabled }}
{{ include "folio.metrics.listen" (dict "root" .root "port" 7006) }}
{{- end }}
- --worker=127.0.0.1:7000
{{- if eq .root.Values.topology "node" }}
- --standby={{ include "folio.gateway.standby" . }}:7000
{{- end }}
- {{ printf "--manager=%s" $gateway.console | quote }}
{{- if .root.Values.tls.secret }}
{{ include "folio.tls.client.args" (dict "root" .root "prefix" "upstream_tls") }}
{{- end }}
{{- if .root.Values.access.secret }}
- --upstream_token_file={{ include "folio.access.token" "gateway" }}
{{- end }}
{{- if $gateway.apiKeys.secret }}
- --api_keys=/etc/folio/keys/{{ $gateway.apiKeys.entry }}
{{- end }}
{{- if $gateway.tls.secret }}
- --tls_cert=/etc/folio/tls/tls.crt
- --tls_key=/etc/folio/tls/tls.key
{{- end }}
{{- if $gateway.tls.clientCertificates }}
- --tls_client_ca=/etc/folio/tls/ca.crt
{{- end }}
{{- with $gateway.corsOrigins }}
- {{ printf "--cors_origins=%s" (join "," .) | quote }}
{{- end }}
- --resume_timeout={{ int $gateway.resumeTimeoutSeconds }}s
# Longer than the worker's, whose last words are passed on.
- --drain_timeout={{ add 5 (int .m.worker.drainTimeoutSeconds) }}s
- --log_format={{ .root.Values.logFormat }}
{{- range $gateway.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "folio.gateway.container" -}}
{{- $gateway := .root.Values.gateway -}}
- name: gateway
  image: {{ include "folio.image" (dict "root" .root "name" .root.Values.image.gateway) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [folio-gateway]
  args:
    {{- include "folio.gateway.args" . | nindent 4 }}
  ports:
    - name: http
      containerPort: 8000
    {{- if .root.Values.metrics.enabled }}
    - name: gateway-metrics
      containerPort: 7006
    {{- end }}
  securityContext: {{ include "folio.container.security" . | nindent 4 }}
  resources: {{ toYaml $gateway.resources | nindent 4 }}
  # It is ready when a worker of the node serves.
  readinessProbe:
    {{- if $gateway.tls.clientCertificates }}
    tcpSocket: {port: http}
    {{- else }}
    httpGet:
      path: /health
      port: http
      {{- if $gateway.tls.secret }}
      scheme: HTTPS
      {{- end }}
    {{- end }}
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 2
  # It says nothing of workers, and clients that have all connections do not stand in its way.
  livenessProbe:
    {{- if .root.Values.metrics.enabled }}
    httpGet:
      path: /metrics
      port: gateway-metrics
    {{- else }}
    tcpSocket: {port: http}
    {{- end }}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
    # A process that does not answer does not drain either.
    terminationGracePeriodSeconds: 10
  {{- with int .m.worker.preStopSleepSeconds }}
  lifecycle:
    preStop:
      sleep: {seconds: {{ . }}}
  {{- end }}
  {{- if or $gateway.apiKeys.secret $gateway.tls.secret .root.Values.tls.secret }}
  volumeMounts:
    {{- if $gateway.apiKeys.secret }}
    # A whole directory, because a single file of a Secret would not follow its changes.
    - name: gateway-keys
      mountPath: /etc/folio/keys
      readOnly: true
    {{- end }}
    {{- if $gateway.tls.secret }}
    - name: gateway-tls
      mountPath: /etc/folio/tls
      readOnly: true
    {{- end }}
    {{- if .root.Values.tls.secret }}
    {{- include "folio.tls.client.mount" . | nindent 4 }}
    {{- end }}
    {{- if .root.Values.access.secret }}
    {{- include "folio.access.token.mount" . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{- define "folio.gateway.volumes" -}}
{{- $gateway := .root.Values.gateway -}}
{{- with $gateway.apiKeys.secret }}
- name: gateway-keys
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- with $gateway.tls.secret }}
- name: gateway-tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- if .root.Values.tls.secret }}
{{ include "folio.tls.client.volume" .root }}
{{- end }}
{{- if .root.Values.access.secret }}
{{ include "folio.access.token.volume" (dict "root" .root "entry" "gateway") }}
{{- end }}
{{- end }}

{{/* Refusals. Give the root. */}}
{{- define "folio.check.gateway" -}}
{{- $gateway := .Values.gateway -}}
{{- if and $gateway.tls.clientCertificates (not $gateway.tls.secret) -}}
{{ fail "gateway.tls.clientCertificates needs gateway.tls.secret, whose entry ca.crt has the authorities" }}
{{- end -}}
{{- if $gateway.enabled -}}
{{- $services := dict -}}
{{- range .Values.models -}}
{{- $name := .name -}}
{{- range list "gateway" "node" }}{{ $_ := set $services (printf "%s-%s" $name .) $name }}{{ end -}}
{{- end -}}
{{- range .Values.models -}}
{{- if hasKey $services .name -}}
{{ fail (printf "models: %q is the name of a Service that %q has for its gateway; give one of them another name" .name (index $services .name)) }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $known := dict "listen" "listenAddress" "metrics_listen" "metrics.enabled" "worker" "gateway.enabled" "standby" "topology"
    "manager" "gateway.console" "api_keys" "gateway.apiKeys" "tls_cert" "gateway.tls" "tls_key" "gateway.tls" "tls_client_ca" "gateway.tls.clientCertificates"
    "upstream_tls" "tls.secret" "upstream_tls_ca" "tls.secret" "upstream_tls_server_name" "tls.serverName"
    "upstream_token_file" "access.tokens" "upstream_tls_cert" "tls.clientCertificates" "upstream_tls_key" "tls.clientCertificates"
    "cors_origins" "gateway.corsOrigins" "resume_timeout" "gateway.resumeTimeoutSeconds"
    "drain_timeout" "worker.drainTimeoutSeconds" "log_format" "logFormat" -}}
{{- include "folio.check.args" (dict "value" "gateway.extraArgs" "args" $gateway.extraArgs "known" $known) -}}
{{- end }}
