{{/* The container of the worker, and its pod. Each template takes a dict of root and m. */}}

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
  {{- if and (not $alone) (include "folio.state.own" .) }}
  {{- include "folio.state.volume" . | nindent 2 }}
  {{- end }}
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
