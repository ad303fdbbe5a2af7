{{/* A Role or ClusterRole up to its rules. Arguments: as of object; kind. */}}
{{- define "switchback.role" -}}
{{ include "switchback.object" (merge (dict "api" "rbac.authorization.k8s.io/v1" "kind" .kind) .) }}
rules:
{{- end }}

{{/*
Binds a Role (in its namespace) or a ClusterRole (in the cluster) to accounts. Arguments: as of object; kind and role
(what is bound; the binding has the Role's name if `name` is not given), accounts (names), accountNamespace (default: the
release's).
*/}}
{{- define "switchback.binding" -}}
{{- $here := merge (dict) . (dict "name" .role) -}}
{{ include "switchback.object" (merge (dict "api" "rbac.authorization.k8s.io/v1" "kind" (printf "%sBinding" .kind)) $here) }}
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
