{{/* The part that the containers of `helm test` have in common. Give a dict of root, and of an image that is not folioctl's. */}}
{{- define "folio.test.container" -}}
image: {{ .image | default (include "folio.image" (dict "root" .root "name" .root.Values.image.cli)) | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{ include "folio.container.security" . | nindent 2 }}
resources:
  requests: {cpu: 20m, memory: 32Mi}
  limits: {memory: 128Mi}
{{- end }}
