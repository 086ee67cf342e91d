{{/* The parts that all pods have in common, and the two directories that they share. */}}

{{/* Fields of a pod's spec. Give a dict of root and m. */}}
{{- define "folio.pod.common" -}}
serviceAccountName: {{ include "folio.serviceAccountName" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
  {{- with .root.Values.seLinuxOptions }}
  seLinuxOptions: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- with .root.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
{{- with .m.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .m.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "folio.container.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/*
Requests and limits with the memory that follows from the pool, where no memory is given.
Give a dict of resources, request and limit, both in MiB.
*/}}
{{- define "folio.resources" -}}
{{- $request := dict "memory" (printf "%sMi" .request) -}}
{{- $limit := dict "memory" (printf "%sMi" .limit) -}}
{{- $computed := dict "requests" $request "limits" $limit -}}
{{ toYaml (mustMergeOverwrite $computed (deepCopy .resources)) }}
{{- end }}

{{/* The directory of the sockets in all containers. One claim for several models has a folder for each. */}}
{{- define "folio.sockets.dir" -}}
{{- $shared := and (eq .root.Values.topology "node") .root.Values.sockets.existingClaim .root.Values.models -}}
/run/folio{{ if $shared }}/{{ .m.id }}{{ end }}
{{- end }}

{{/* The directory of a manager's sockets on the node. */}}
{{- define "folio.sockets.hostPath" -}}
{{ printf "%s/%s-%s" (trimSuffix "/" .root.Values.sockets.path) .root.Release.Namespace .m.fullname }}
{{- end }}

{{- define "folio.sockets.volume" -}}
{{- $sockets := .root.Values.sockets -}}
- name: sockets
{{- if eq .root.Values.topology "pod" }}
  emptyDir:
    medium: Memory
    sizeLimit: 1Mi
{{- else if eq $sockets.type "hostPath" }}
  hostPath:
    path: {{ include "folio.sockets.hostPath" . }}
    type: DirectoryOrCreate
{{- else }}
  persistentVolumeClaim:
    claimName: {{ default (printf "%s-sockets" .m.fullname) $sockets.existingClaim }}
{{- end }}
{{- end }}

{{- define "folio.sockets.mount" -}}
- name: sockets
  mountPath: /run/folio
{{- end }}

{{/* Gives the socket directory, which the kubelet makes as root, to the manager's user. */}}
{{- define "folio.sockets.prepare" -}}
- name: prepare-sockets
  image: {{ .root.Values.image.tools | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [chown, "10001:10001", /run/folio]
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
      add: [CHOWN]
  resources:
    requests: {cpu: 10m, memory: 16Mi}
    limits: {memory: 32Mi}
  volumeMounts:
    {{- include "folio.sockets.mount" . | nindent 4 }}
{{- end }}

{{/* Downloads the model into the pod and checks it. */}}
{{- define "folio.model.fetch" -}}
- name: fetch-model
  image: {{ .root.Values.image.tools | quote }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/bin/sh, -c]
  args:
    - {{ .root.Files.Get "files/fetch-model.sh" | quote }}
  env:
    - name: MODEL_URL
      value: {{ .m.model.fetch.url | quote }}
    - name: MODEL_SHA256
      value: {{ .m.model.fetch.sha256 | lower | quote }}
    - name: MODEL_FILE
      value: {{ include "folio.model.path" . | quote }}
  securityContext: {{ include "folio.container.security" . | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 256Mi}
  volumeMounts:
    - name: model
      mountPath: /models
{{- end }}
