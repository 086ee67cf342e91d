{{/* Names and selectors of what Prometheus sees. */}}

{{- define "folio.metrics.namespace" -}}
{{ default .Release.Namespace .Values.metrics.namespace }}
{{- end }}

{{/*
The name of the Service for the metrics of a component, which is also the job that a ServiceMonitor gives to its targets.
Give a dict of root, m and component. The names of two components differ within what fits into a name.
*/}}
{{- define "folio.metrics.service" -}}
{{ printf "%s-metrics-%s" .m.fullname .component | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The components that serve metrics, with their ports, as JSON. */}}
{{- define "folio.metrics.ports" -}}
{{- $ports := dict "manager" 7003 "worker" 7004 -}}
{{- if .Values.gateway.enabled }}{{ $_ := set $ports "gateway" 7006 }}{{ end -}}
{{ toJson $ports }}
{{- end }}

{{/* Matchers that fit all targets of the release, or what a value says instead. */}}
{{- define "folio.metrics.selector" -}}
{{- $root := . -}}
{{- $jobs := list -}}
{{- range $m := include "folio.models" . | fromJsonArray -}}
{{- range $component, $_ := include "folio.metrics.ports" $root | fromJson -}}
{{- $jobs = append $jobs (include "folio.metrics.service" (dict "root" $root "m" $m "component" $component)) -}}
{{- end -}}
{{- end -}}
{{ default (printf "namespace=%q,job=~%q" .Release.Namespace (join "|" $jobs)) .Values.metrics.prometheusRule.selector }}
{{- end }}

{{/* The requests that wait at the workers of a model, which KEDA asks for. Give a dict of root, m and component. */}}
{{- define "folio.scaling.query" -}}
{{ printf "sum(folio:num_requests_waiting{namespace=%q,job=%q})" .root.Release.Namespace (include "folio.metrics.service" .) }}
{{- end }}

{{/* The address on which a daemon serves metrics. Give a dict of root and port. */}}
{{- define "folio.metrics.listen" -}}
- --metrics_listen={{ .root.Values.listenAddress }}:{{ .port }}
{{- end }}

{{/* Refusals. */}}
{{- define "folio.check.metrics" -}}
{{- $metrics := .Values.metrics -}}
{{- if not $metrics.enabled -}}
{{- range list "serviceMonitor" "prometheusRule" "dashboard" -}}
{{- if index $metrics . "enabled" }}{{ fail (printf "metrics.%s.enabled needs metrics.enabled" .) }}{{ end -}}
{{- end -}}
{{- if .Values.inferencePool.enabled -}}
{{ fail "inferencePool.enabled needs metrics.enabled, because the endpoint picker reads the metrics of the workers" }}
{{- end -}}
{{- end -}}
{{- if and .Values.inferencePool.enabled (not .Values.inferencePool.endpointPickerRef.name) -}}
{{ fail "inferencePool.enabled needs inferencePool.endpointPickerRef.name, the Service of your endpoint picker" }}
{{- end -}}
{{- $known := dict -}}
{{- range .Files.Get "files/alerts.yaml" | fromYamlArray }}{{ $_ := set $known .name . }}{{ end -}}
{{- range $name, $changes := $metrics.prometheusRule.alerts -}}
{{- if not (hasKey $known $name) -}}
{{ fail (printf "metrics.prometheusRule.alerts: there is no alert %q; there are %s" $name (keys $known | sortAlpha | join ", ")) }}
{{- end -}}
{{- if and (hasKey $changes "above") (not (hasKey (index $known $name) "above")) -}}
{{ fail (printf "metrics.prometheusRule.alerts.%s has no limit, so `above` says nothing" $name) }}
{{- end -}}
{{- end -}}
{{- with .Values.autoscaling -}}
{{- if and .enabled (eq .kind "keda") -}}
{{- if not .keda.serverAddress -}}
{{ fail "autoscaling.kind is keda, which needs autoscaling.keda.serverAddress, the address of Prometheus, such as http://prometheus.monitoring.svc:9090" }}
{{- end -}}
{{- if not (or $metrics.enabled .keda.query) -}}
{{ fail "autoscaling.kind is keda, which needs metrics.enabled, or a question of your own in autoscaling.keda.query" }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
