{{/* Names, labels and images. */}}

{{- define "folio.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{/* The beginning of all names. It leaves room for a model's name and a component's. */}}
{{- define "folio.fullname" -}}
{{- $name := include "folio.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "folio.selector" -}}
app.kubernetes.io/name: {{ include "folio.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "folio.labels" -}}
{{ include "folio.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
Labels that select the pods of one component of one model. Give a dict of root, m and component.
Pods have no other labels, so that a new version of the chart that leaves a pod as it is does not replace it.
*/}}
{{- define "folio.component.selector" -}}
{{ include "folio.selector" .root }}
app.kubernetes.io/component: {{ .component }}
folio/model: {{ .m.id }}
{{- end }}

{{- define "folio.component.labels" -}}
{{ include "folio.labels" .root }}
app.kubernetes.io/component: {{ .component }}
folio/model: {{ .m.id }}
{{- end }}

{{- define "folio.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "folio.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{/* The reference of one of Folio's images. Give a dict of root and name. */}}
{{- define "folio.image" -}}
{{- $image := .root.Values.image -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .name }}
{{- if not (regexMatch "[:@]" .name) }}:{{ default .root.Chart.AppVersion $image.tag }}{{ end -}}
{{- end }}

{{/* A size such as 1GiB in MiB. Give a dict of value and size. */}}
{{- define "folio.mib" -}}
{{- if not (regexMatch "^[1-9][0-9]{0,8}(MiB|GiB)$" .size) -}}
{{ fail (printf "%s: %q is not a size; write a whole number of MiB or GiB, such as 512MiB or 2GiB" .value .size) }}
{{- end -}}
{{- $number := regexFind "^[0-9]+" .size | int64 -}}
{{ ternary (mul $number 1024) $number (hasSuffix "GiB" .size) }}
{{- end }}
