{{/* The containers of the two daemons. Each takes a dict of root and m. */}}

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
- --drain_timeout={{ int .m.manager.drainTimeoutSeconds }}s
- --log_format={{ .root.Values.logFormat }}
{{- range .m.manager.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "folio.manager.resources" -}}
{{- $memory := add 256 (include "folio.pool.mib" . | int64) (include "folio.swap.mib" . | int64) | toString -}}
{{- $resources := deepCopy .m.manager.resources -}}
{{- if .m.gpu.enabled -}}
{{- $limits := default (dict) $resources.limits | deepCopy -}}
{{- $_ := set $resources "limits" (set $limits .m.gpu.resource (int .m.worker.tensorParallel | toString)) -}}
{{- end -}}
{{ include "folio.resources" (dict "resources" $resources "request" $memory "limit" $memory) }}
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
    {{- if and .m.manager.tcp.enabled .root.Values.tls.secret }}
    {{- include "folio.tls.server.mount" . | nindent 4 }}
    {{- end }}
    {{- if .root.Values.access.secret }}
    {{- include "folio.access.mount" . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "folio.worker.args" -}}
- --model={{ include "folio.model.path" . }}
{{- with .m.model.name }}
- --model_name={{ . }}
{{- end }}
- --manager=unix:{{ include "folio.sockets.dir" . }}/manager.sock
- --listen={{ .root.Values.listenAddress }}:7000
{{ include "folio.tls.server.args" .root }}
{{- if .root.Values.access.secret }}
{{ include "folio.access.args" .root }}
{{- end }}
- --health_listen={{ .root.Values.listenAddress }}:7005
{{- if .root.Values.metrics.enabled }}
{{ include "folio.metrics.listen" (dict "root" .root "port" 7004) }}
{{- end }}
{{- if .m.gpu.enabled }}
- --device=cuda
{{- end }}
{{- if gt (int .m.worker.tensorParallel) 1 }}
- --tp={{ int .m.worker.tensorParallel }}
{{- end }}
- --attach_timeout={{ int .m.worker.attachTimeoutSeconds }}s
- --drain_timeout={{ int .m.worker.drainTimeoutSeconds }}s
- --log_format={{ .root.Values.logFormat }}
{{- range .m.worker.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "folio.worker.resources" -}}
{{- $own := include "folio.mib" (dict "value" "worker.memory" "size" .m.worker.memory) -}}
{{- $pool := ternary "0" (include "folio.pool.mib" .) .m.manager.prefault -}}
{{- $limit := add (int64 $own) (int64 $pool) (include "folio.swap.mib" . | int64) | toString -}}
{{ include "folio.resources" (dict "resources" .m.worker.resources "request" $own "limit" $limit) }}
{{- end }}

{{- define "folio.worker.container" -}}
{{- $name := ternary .root.Values.image.workerCuda .root.Values.image.worker .m.gpu.enabled -}}
- name: worker
  image: {{ include "folio.image" (dict "root" .root "name" $name) | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [folio-worker]
  args:
    {{- include "folio.worker.args" . | nindent 4 }}
  {{- if .m.gpu.enabled }}
  env:
    # The GPUs are the manager's. The runtime class shows the worker all GPUs of the node, and it takes those that hold
    # the pages.
    - name: NVIDIA_VISIBLE_DEVICES
      value: all
    - name: NVIDIA_DRIVER_CAPABILITIES
      value: compute,utility
  {{- end }}
  ports:
    - name: grpc
      containerPort: 7000
    - name: worker-health
      containerPort: 7005
    {{- if .root.Values.metrics.enabled }}
    - name: metrics
      containerPort: 7004
    {{- end }}
  securityContext: {{ include "folio.container.security" . | nindent 4 }}
  resources: {{ include "folio.worker.resources" . | nindent 4 }}
  # It listens when it has loaded the model and attached.
  startupProbe:
    grpc: {port: 7005}
    periodSeconds: 2
    timeoutSeconds: 3
    failureThreshold: {{ div (add 1 (int .m.worker.startupTimeoutSeconds)) 2 }}
  readinessProbe:
    grpc: {port: 7005}
    periodSeconds: 5
    timeoutSeconds: 3
    failureThreshold: 2
  # It fails when the process does not answer at all. A worker that has lost its manager, or whose step loop hangs, answers,
  # and ends itself when attachTimeoutSeconds or --step_timeout are over. A process that is stopped blocks the pages of its
  # sequences, and the manager cannot end it, because the kernel forbids that across pods.
  livenessProbe:
    grpc: {port: 7005, service: liveness}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 3
    # A process that does not answer does not drain either.
    terminationGracePeriodSeconds: 10
  {{- with int .m.worker.preStopSleepSeconds }}
  lifecycle:
    preStop:
      sleep: {seconds: {{ . }}}
  {{- end }}
  volumeMounts:
    {{- include "folio.sockets.mount" . | nindent 4 }}
    {{- include "folio.model.mount" . | nindent 4 }}
    {{- if .root.Values.tls.secret }}
    {{- include "folio.tls.server.mount" . | nindent 4 }}
    {{- end }}
    {{- if .root.Values.access.secret }}
    {{- include "folio.access.mount" . | nindent 4 }}
    {{- end }}
    # Ranks meet at a socket in /tmp.
    - name: tmp
      mountPath: /tmp
    {{- if and .m.gpu.enabled (gt (int .m.worker.tensorParallel) 1) }}
    # NCCL's ranks exchange messages in it, and a container's own is too small.
    - name: shm
      mountPath: /dev/shm
    {{- end }}
{{- end }}

{{/* The pod of a worker, and of its manager where both share a pod. */}}
{{- define "folio.worker.pod" -}}
{{- $alone := eq .root.Values.topology "node" -}}
{{- $fetch := eq (include "folio.model.source" .) "fetch" -}}
{{- $grace := add (int .m.worker.preStopSleepSeconds) (int .m.worker.drainTimeoutSeconds) 15 -}}
{{- if not $alone }}{{ $grace = add $grace (int .m.manager.drainTimeoutSeconds) }}{{ end -}}
{{ include "folio.pod.common" . }}
{{- with and .m.gpu.enabled .m.gpu.runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
terminationGracePeriodSeconds: {{ $grace }}
{{- with .m.worker.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .m.worker.topologySpread }}
{{- if .enabled }}
topologySpreadConstraints:
  - topologyKey: {{ .topologyKey }}
    maxSkew: {{ int .maxSkew }}
    whenUnsatisfiable: {{ .whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{ include "folio.component.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- if or $fetch (not $alone) }}
initContainers:
  {{- if $fetch }}
  {{- include "folio.model.fetch" . | nindent 2 }}
  {{- end }}
  {{- if not $alone }}
  {{- include "folio.manager.container" . | nindent 2 }}
  {{- end }}
{{- end }}
containers:
  {{- include "folio.worker.container" . | nindent 2 }}
  {{- if .root.Values.gateway.enabled }}
  {{- include "folio.gateway.container" . | nindent 2 }}
  {{- end }}
volumes:
  {{- include "folio.sockets.volume" . | nindent 2 }}
  {{- include "folio.model.volume" . | nindent 2 }}
  {{- if .root.Values.tls.secret }}
  {{- include "folio.tls.server.volume" .root | nindent 2 }}
  {{- end }}
  {{- if .root.Values.access.secret }}
  {{- include "folio.access.volume" .root | nindent 2 }}
  {{- end }}
  {{- if .root.Values.gateway.enabled }}
  {{- with include "folio.gateway.volumes" . | trim }}{{ . | nindent 2 }}{{ end }}
  {{- end }}
  - name: tmp
    emptyDir:
      medium: Memory
      sizeLimit: 16Mi
  {{- if and .m.gpu.enabled (gt (int .m.worker.tensorParallel) 1) }}
  - name: shm
    emptyDir:
      medium: Memory
      sizeLimit: 1Gi
  {{- end }}
{{- end }}
