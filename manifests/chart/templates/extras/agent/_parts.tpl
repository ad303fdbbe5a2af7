{{/* What the agents add to templates of the core (`switchback.added`). */}}
{{- define "switchback.agent.accounts" -}}
{{- list (printf "%s/%s" .Values.config.agent.namespace (include "switchback.account" (dict "root" . "component" "agent"))) | toJson -}}
{{- end }}

{{- define "switchback.agent.enabledSections" -}}
{{ if (.Values.agent).enabled }}["agent"]{{ else }}[]{{ end }}
{{- end }}

{{- define "switchback.agent.podSections" -}}
["agent"]
{{- end }}

{{/* Namespaces of the release beside its own. */}}
{{- define "switchback.agent.namespaces" -}}
{{- ternary (list .Values.config.agent.namespace) list .Values.agent.enabled | toJson -}}
{{- end }}

{{/* Workloads that the uninstall patches without restarting them: pairs of namespace and name. */}}
{{- define "switchback.agent.uninstallPatches" -}}
{{- list (list .Values.config.agent.namespace "switchback-agent") | toJson -}}
{{- end }}

{{/* Cluster-wide rights of the uninstall. */}}
{{- define "switchback.agent.uninstallClusterRules" -}}
# To detect agents.
- apiGroups: [apps]
  resources: [daemonsets]
  resourceNames: [switchback-agent]
  verbs: [get]
{{- end }}

{{- define "switchback.agent.notes" -}}
{{- with (.Values.config.nodeHosts).names }}
{{- if $.Values.agent.enabled }}
The agents write {{ join ", " . }} into the hosts file of every node.
Pods on the host's network inherit these names, opted in or not.
{{- else }}
WARNING: config.nodeHosts.names does nothing without agent.enabled.
{{- end }}
{{- end }}
{{- end }}
