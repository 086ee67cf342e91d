{{/*
The journal of a manager, from which the next one continues. Each template takes a dict of root and m.

The pods of a manager that follow each other on a node find it in the directory of the sockets. A pod with other GPUs could not
continue it, and neither could a pod with a worker of its own. So it lies in a volume of the pod then, and outlives the container alone.
*/}}

{{/* Not empty if the journal has a volume of its own. */}}
{{- define "folio.state.own" -}}
{{- if and .m.manager.state.enabled (or (eq .root.Values.topology "pod") .m.gpu.enabled) }}own{{ end -}}
{{- end }}

{{/* The size of the journal in MiB: 0 without one. */}}
{{- define "folio.state.mib" -}}
{{- if .m.manager.state.enabled -}}
{{- $size := .m.manager.state.size -}}
{{- $mib := include "folio.mib" (dict "value" "manager.state.size" "size" $size) -}}
{{- if lt (int64 $mib) 32 -}}
{{ fail (printf "manager.state.size: %s is too little; a file of the journal grows to 16MiB before another one follows it, so give it 32MiB or more" $size) }}
{{- end -}}
{{ $mib }}
{{- else -}}0{{- end -}}
{{- end }}

{{/*
A manager gives the pool that it continues the size that it had, and limits of memory follow from the size in the values. So a folder is
for one size.
*/}}
{{- define "folio.state.dir" -}}
{{- if include "folio.state.own" . -}}
/run/folio-state
{{- else -}}
{{- $swap := include "folio.swap.mib" . -}}
{{ include "folio.sockets.dir" . }}/state/{{ include "folio.pool.mib" . }}MiB
{{- if ne $swap "0" }}-swap-{{ $swap }}MiB{{ end -}}
{{- if .m.manager.prefault }}-prefault{{ end -}}
{{- end -}}
{{- end }}

{{- define "folio.state.mount" -}}
- name: state
  mountPath: {{ include "folio.state.dir" . }}
{{- end }}

{{- define "folio.state.volume" -}}
- name: state
  emptyDir:
    medium: Memory
    sizeLimit: {{ include "folio.state.mib" . }}Mi
{{- end }}
