{{/* Annotations of a hook's object; "" of another. Arguments: hook, weight, job. */}}
{{- define "switchback.hook" -}}
{{- if .hook -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | quote }}
# A failed Job or pod is kept for its log.
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- if .job }}
helm.sh/hook-output-log-policy: hook-succeeded,hook-failed
{{- end }}
{{- end }}
{{- end }}

{{/* A hook's restricted pod, with the placement of all pods. Arguments: as of hookJob. */}}
{{- define "switchback.hookPodSpec" -}}
{{- $pods := .root.Values.pods -}}
restartPolicy: Never
serviceAccountName: {{ .account | default .name }}
automountServiceAccountToken: true
{{- include "switchback.pullSecrets" .root }}
{{- include "switchback.placement" . }}
securityContext:
  {{- include "switchback.securityContext" (dict "given" $pods.securityContext) | nindent 2 }}
containers:
  - name: {{ .component }}
    image: {{ include "switchback.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: {{ toJson .command }}
    resources:
      requests: { cpu: 50m, memory: 96Mi }
      limits: { memory: 256Mi }
    securityContext:
      {{- include "switchback.securityContext" (dict "given" $pods.containerSecurityContext "container" true) | nindent 6 }}
{{- end }}
