{{/*
Binds a Role (in its namespace) or a ClusterRole (in the cluster) to accounts. Arguments: as of metadata; kind and role
(what is bound; the binding has the Role's name if `name` is not given), accounts (names), accountNamespace (default: the
release's).
*/}}
{{- define "switchback.binding" -}}
{{- $here := merge (dict) . (dict "name" .role) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  {{- if eq .kind "Role" }}
  {{- include "switchback.metadata" $here | nindent 2 }}
  {{- else }}
  {{- include "switchback.clusterMetadata" $here | nindent 2 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role }}
subjects:
  {{- range .accounts }}
  - kind: ServiceAccount
    name: {{ . }}
    namespace: {{ $.accountNamespace | default $.root.Release.Namespace }}
  {{- end }}
{{- end }}
