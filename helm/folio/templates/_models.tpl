{{/* The models of the release, each with the values that hold for it. */}}

{{/*
The models as a JSON list. An entry has
  id        "default", or the name of the entry of `models`; the value of the label folio/model
  fullname  the beginning of the names of its objects
  model, manager, worker, gpu, nodeSelector, tolerations
*/}}
{{- define "folio.models" -}}
{{- $root := . -}}
{{- $list := list -}}
{{- $common := pick .Values "manager" "worker" "gpu" "nodeSelector" "tolerations" -}}
{{- if .Values.models -}}
{{- range .Values.models -}}
{{- $entry := mustMergeOverwrite (deepCopy $common) (omit . "name" "model") -}}
{{- $model := mustMergeOverwrite (deepCopy $root.Values.model) (deepCopy .model) -}}
{{- $names := dict "id" .name "fullname" (printf "%s-%s" (include "folio.fullname" $root) .name) "model" $model -}}
{{- $list = append $list (mustMergeOverwrite $entry $names) -}}
{{- end -}}
{{- else -}}
{{- $names := dict "id" "default" "fullname" (include "folio.fullname" .) "model" .Values.model -}}
{{- $list = list (mustMergeOverwrite (deepCopy $common) $names) -}}
{{- end -}}
{{ toJson $list }}
{{- end }}

{{/* Which source a model comes from: hostPath, claim, image or fetch. Give a dict of root and m. */}}
{{- define "folio.model.source" -}}
{{- $model := .m.model -}}
{{- $given := list -}}
{{- range list "hostPath" "claim" "image" }}{{ if index $model . }}{{ $given = append $given . }}{{ end }}{{ end -}}
{{- if $model.fetch.url }}{{ $given = append $given "fetch" }}{{ end -}}
{{- $place := ternary "model" (printf "models: the model of %q" .m.id) (eq .m.id "default") -}}
{{- if not $given -}}
{{ fail (printf "%s has no source; give one of hostPath, claim, image or fetch.url, such as --set model.hostPath=/srv/model.gguf" $place) }}
{{- else if gt (len $given) 1 -}}
{{ fail (printf "%s has the sources %s; give one" $place (join " and " $given)) }}
{{- end -}}
{{ first $given }}
{{- end }}

{{/* The path of a model in the worker's container. */}}
{{- define "folio.model.path" -}}
{{- $model := .m.model -}}
{{- $source := include "folio.model.source" . -}}
{{- if eq $source "hostPath" -}}
{{ printf "/models/%s" (list (base $model.hostPath) $model.path | compact | join "/") }}
{{- else if eq $source "fetch" -}}
{{ printf "/models/%s" (include "folio.model.file" .) }}
{{- else -}}
{{ printf "/models/%s" $model.path | trimSuffix "/" }}
{{- end -}}
{{- end }}

{{/* The name of a fetched file, which is the last part of its address. */}}
{{- define "folio.model.file" -}}
{{ regexReplaceAll "[?#].*$" .m.model.fetch.url "" | base }}
{{- end }}

{{- define "folio.model.volume" -}}
{{- $model := .m.model -}}
{{- $source := include "folio.model.source" . -}}
- name: model
{{- if eq $source "hostPath" }}
  hostPath:
    path: {{ $model.hostPath | quote }}
    type: {{ ternary "File" "Directory" (hasSuffix ".gguf" $model.hostPath) }}
{{- else if eq $source "claim" }}
  persistentVolumeClaim:
    claimName: {{ $model.claim }}
    readOnly: true
{{- else if eq $source "image" }}
  image:
    reference: {{ $model.image | quote }}
    pullPolicy: {{ .root.Values.image.pullPolicy }}
{{- else }}
  emptyDir: {}
{{- end }}
{{- end }}

{{- define "folio.model.mount" -}}
- name: model
  mountPath: {{ if eq (include "folio.model.source" .) "hostPath" }}/models/{{ base .m.model.hostPath }}{{ else }}/models{{ end }}
  readOnly: true
{{- end }}

{{/* The memory of the pool in MiB that is host memory: 0 with a GPU. */}}
{{- define "folio.pool.mib" -}}
{{- if .m.gpu.enabled -}}0{{- else -}}
{{- if hasSuffix "%" .m.manager.pool -}}
{{ fail (printf "manager.pool: %q is a share, which is for GPU memory; write a size such as 2GiB" .m.manager.pool) }}
{{- end -}}
{{ include "folio.mib" (dict "value" "manager.pool" "size" .m.manager.pool) }}
{{- end -}}
{{- end }}

{{/* The swap memory in MiB: 0 without any. */}}
{{- define "folio.swap.mib" -}}
{{- if .m.manager.swap }}{{ include "folio.mib" (dict "value" "manager.swap" "size" .m.manager.swap) }}{{ else }}0{{ end -}}
{{- end }}
