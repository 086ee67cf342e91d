{{/* The container of the manager. Each template takes a dict of root and m. */}}

{{/* The GPUs that hold the pages, one for each rank: cuda:0,cuda:1 */}}
{{- define "folio.gpu.devices" -}}
{{- $devices := list -}}
{{- range until (int .m.worker.tensorParallel) }}{{ $devices = append $devices (printf "cuda:%d" .) }}{{ end -}}
{{ join "," $devices }}
{{- end }}

{{/* The socket at which folioctl asks the manager. */}}
{{- define "folio.admin.socket" -}}
{{ include "folio.sockets.dir" . }}/{{ ternary "admin" "manager" .m.manager.tcp.adminOnly }}.sock
{{- end }}

{{- define "folio.manager.args" -}}
{{- $tcp := .m.manager.tcp -}}
{{- $host := .root.Values.listenAddress -}}
{{- $listen := list (printf "unix:%s/manager.sock" (include "folio.sockets.dir" .)) -}}
{{- $admin := list (printf "unix:%s" (include "folio.admin.socket" .)) -}}
{{- if $tcp.enabled -}}
{{- $port := printf "%s:%d" $host (int $tcp.port) -}}
{{- $listen = ternary $listen (append $listen $port) $tcp.adminOnly -}}
{{- $admin = append $admin $port -}}
{{- end -}}
- --listen={{ join "," $listen }}
{{- if $tcp.adminOnly }}
- --admin_listen={{ join "," $admin }}
- --steering=false
{{- end }}
{{- if $tcp.enabled }}
{{ include "folio.tls.server.args" .root }}
{{- end }}
{{- if .root.Values.access.secret }}
{{ include "folio.access.args" .root }}
{{- end }}
- --health_listen={{ $host }}:7001
{{- if .root.Values.metrics.enabled }}
{{ include "folio.metrics.listen" (dict "root" .root "port" 7003) }}
{{- end }}
- --pool_bytes={{ .m.manager.pool }}
{{- if .m.manager.prefault }}
- --prefault
{{- end }}
{{- with .m.manager.swap }}
- --host_swap_bytes={{ . }}
{{- end }}
{{- if .m.gpu.enabled }}
- --device={{ include "folio.gpu.devices" . }}
{{- end }}
{{- with .m.manager.defaultBudget }}
- --default_budget={{ . }}
{{- end }}
{{- with .m.manager.maxBudget }}
- --max_budget={{ int . }}
{{- end }}
{{- if .m.manager.state.enabled }}
- --state_dir={{ include "folio.state.dir" . }}
{{- end }}
- --drain_timeout={{ int .m.manager.drainTimeoutSeconds }}s
- --log_format={{ .root.Values.logFormat }}
{{- range .m.manager.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "folio.manager.resources" -}}
{{- $memory := 256 -}}
{{- range list "pool" "swap" "state" }}{{ $memory = add $memory (include (printf "folio.%s.mib" .) $ | int64) }}{{ end -}}
{{- $resources := deepCopy .m.manager.resources -}}
{{- if .m.gpu.enabled -}}
{{- $limits := default (dict) $resources.limits | deepCopy -}}
{{- $_ := set $resources "limits" (set $limits .m.gpu.resource (int .m.worker.tensorParallel | toString)) -}}
{{- end -}}
{{ include "folio.resources" (dict "resources" $resources "request" (toString $memory) "limit" (toString $memory)) }}
{{- end }}

{{- define "folio.manager.container" -}}
- name: manager
  image: {{ include "folio.image" (dict "root" .root "name" .root.Values.image.manager) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  {{- if eq .root.Values.topology "pod" }}
  # A native sidecar: it starts before the worker and ends after it.
  restartPolicy: Always
  {{- end }}
  command: [folio-manager]
  args:
    {{- include "folio.manager.args" . | nindent 4 }}
  {{- if .m.gpu.enabled }}
  env:
    - name: NVIDIA_DRIVER_CAPABILITIES
      value: compute,utility
  {{- end }}
  ports:
    - name: health
      containerPort: 7001
    {{- if .root.Values.metrics.enabled }}
    # The worker has the name where both share a pod, because a pod has each name once.
    - name: {{ ternary "metrics" "manager-metrics" (eq .root.Values.topology "node") }}
      containerPort: 7003
    {{- end }}
    {{- if .m.manager.tcp.enabled }}
    - name: manager
      containerPort: {{ int .m.manager.tcp.port }}
    {{- end }}
  securityContext: {{ include "folio.container.security" . | nindent 4 }}
  resources: {{ include "folio.manager.resources" . | nindent 4 }}
  startupProbe:
    grpc: {port: 7001}
    periodSeconds: 1
    timeoutSeconds: 3
    failureThreshold: 60
  readinessProbe:
    grpc: {port: 7001}
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 2
  livenessProbe:
    grpc: {port: 7001, service: liveness}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
    # A process that does not answer does not drain either.
    terminationGracePeriodSeconds: 10
  volumeMounts:
    {{- include "folio.sockets.mount" . | nindent 4 }}
    {{- if include "folio.state.own" . }}
    {{- include "folio.state.mount" . | nindent 4 }}
    {{- end }}
    {{- if and .m.manager.tcp.enabled .root.Values.tls.secret }}
    {{- include "folio.tls.server.mount" . | nindent 4 }}
    {{- end }}
    {{- if .root.Values.access.secret }}
    {{- include "folio.access.mount" . | nindent 4 }}
    {{- end }}
{{- end }}
