{{/* Refusals that a schema cannot say, or cannot say well. */}}

{{- define "folio.checks" -}}
{{- range list "tenants" "quotas" -}}
{{- if hasKey $.Values . }}{{ fail (printf "%s: not built yet. Folio has no quotas, an API key of the gateway or a request names its tenant, and the chart keeps the two names for settings" .) }}{{ end -}}
{{- end -}}
{{- if and .Values.models (or .Values.model.hostPath .Values.model.claim .Values.model.image .Values.model.fetch.url) -}}
{{ fail "model and models are both given; move the one of `model` into the list `models`" }}
{{- end -}}
{{- $seen := dict -}}
{{- range .Values.models -}}
{{- if hasKey $seen .name }}{{ fail (printf "models: two entries have the name %q" .name) }}{{ end -}}
{{- $_ := set $seen .name true -}}
{{- end -}}
{{- if and (eq .Values.topology "pod") (or .Values.sockets.existingClaim (eq .Values.sockets.type "claim")) -}}
{{ fail "sockets.type and sockets.existingClaim are for topology \"node\"; in topology \"pod\" the sockets lie in the pod" }}
{{- end -}}
{{- if and .Values.sockets.existingClaim (ne .Values.sockets.type "claim") -}}
{{ fail "sockets.existingClaim needs sockets.type \"claim\"" }}
{{- end -}}
{{- if and .Values.priorityClass.create (not .Values.priorityClass.name) -}}
{{ fail "priorityClass.create needs priorityClass.name, the name of the class to make" }}
{{- end -}}
{{- if and .Values.service.headless (ne .Values.service.type "ClusterIP") -}}
{{ fail (printf "service.headless is for type ClusterIP, and service.type is %s" .Values.service.type) }}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) -}}
{{ fail (printf "autoscaling.minReplicas is %d, more than maxReplicas, which is %d" (int .minReplicas) (int .maxReplicas)) }}
{{- end -}}
{{- end -}}
{{- include "folio.check.metrics" . -}}
{{- include "folio.check.gateway" . -}}
{{- include "folio.check.tls" . -}}
{{- include "folio.check.access" . -}}
{{- range $m := include "folio.models" . | fromJsonArray -}}
{{- include "folio.check.model" (dict "root" $ "m" $m) -}}
{{- end -}}
{{- end }}

{{- define "folio.check.model" -}}
{{- $m := .m -}}
{{- if and $m.gpu.enabled (regexMatch "(^|[/.-])mig-" $m.gpu.resource) -}}
{{ fail (printf "gpu.resource: %s is a MIG slice. The manager shares the pages in GPU memory with workers in other containers by CUDA's handles to memory, which are valid on one device, and each container would get another slice. Turn MIG off on these nodes and give a resource of whole GPUs, such as nvidia.com/gpu" $m.gpu.resource) }}
{{- end -}}
{{- if and $m.gpu.enabled $m.manager.prefault -}}
{{ fail "manager.prefault is for pages in host memory; the memory of a GPU is always taken at once" }}
{{- end -}}
{{- if and $m.manager.tcp.adminOnly (not $m.manager.tcp.enabled) -}}
{{ fail "manager.tcp.adminOnly needs manager.tcp.enabled" }}
{{- end -}}
{{- if and (eq (include "folio.model.source" .) "image") (not (semverCompare ">=1.33-0" .root.Capabilities.KubeVersion.Version)) -}}
{{ fail (printf "model.image needs Kubernetes 1.33 or newer with ImageVolume enabled, and this is %s; use a claim or fetch" .root.Capabilities.KubeVersion.Version) }}
{{- end -}}
{{- if and $m.model.fetch.url (not $m.model.fetch.sha256) -}}
{{ fail "model.fetch.url needs model.fetch.sha256, the SHA-256 of the file" }}
{{- end -}}
{{- if and $m.model.fetch.url $m.model.path -}}
{{ fail "model.path is inside a directory, a claim or an image; model.fetch brings one file" }}
{{- end -}}
{{- if and (hasSuffix ".gguf" $m.model.hostPath) $m.model.path -}}
{{ fail (printf "model.hostPath %q is a file, so model.path must be empty" $m.model.hostPath) }}
{{- end -}}
{{- if and (eq $m.worker.kind "Deployment") (eq (toString $m.worker.maxSurge) "0") (eq (toString $m.worker.maxUnavailable) "0") -}}
{{ fail "worker.maxSurge and worker.maxUnavailable are both 0, so an upgrade could not replace a worker; give one of them" }}
{{- end -}}
{{- $tls := dict "tls_cert" "tls.secret" "tls_key" "tls.secret" "insecure_tcp" "tls.secret" "tls_client_ca" "tls.clientCertificates"
    "access" "access.secret" -}}
{{- $manager := dict "listen" "manager.tcp" "admin_listen" "manager.tcp.adminOnly" "steering" "manager.tcp.adminOnly" "health_listen" "listenAddress" "metrics_listen" "metrics.enabled" "pool_bytes" "manager.pool" "prefault" "manager.prefault" "host_swap_bytes" "manager.swap" "device" "gpu"
    "default_budget" "manager.defaultBudget" "max_budget" "manager.maxBudget" "drain_timeout" "manager.drainTimeoutSeconds"
    "state_dir" "manager.state" "export_socket" "sockets" "log_format" "logFormat" -}}
{{- include "folio.check.args" (dict "value" "manager.extraArgs" "args" $m.manager.extraArgs "known" (merge $manager $tls)) -}}
{{- $worker := dict "model" "model" "model_name" "model.name" "manager" "sockets" "listen" "listenAddress" "health_listen" "listenAddress" "device" "gpu"
    "metrics_listen" "metrics.enabled" "tp" "worker.tensorParallel" "attach_timeout" "worker.attachTimeoutSeconds" "drain_timeout" "worker.drainTimeoutSeconds"
    "log_format" "logFormat" -}}
{{- include "folio.check.args" (dict "value" "worker.extraArgs" "args" $m.worker.extraArgs "known" (merge $worker $tls)) -}}
{{- end }}

{{/* Refuses flags that a value sets, because a flag that is given twice is hard to see through. */}}
{{- define "folio.check.args" -}}
{{- $all := . -}}
{{- range .args -}}
{{- $name := regexReplaceAll "^--?([^=]*).*$" . "${1}" | replace "-" "_" -}}
{{- if hasKey $all.known $name -}}
{{ fail (printf "%s: --%s is set by the value %s; change that" $all.value $name (index $all.known $name)) }}
{{- end -}}
{{- end -}}
{{- end }}
