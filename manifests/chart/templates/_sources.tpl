{{/* What the controller reads of the kinds that names come from: RBAC rules, "" if it reads none (sources/). */}}
{{- define "switchback.sourceRules" -}}
{{- $sources := .Values.config.sources -}}
{{- if $sources.ingress.enabled }}
- apiGroups: [networking.k8s.io]
  resources: [ingresses, ingressclasses]
  verbs: [list, watch]
{{- end }}
{{- if $sources.gateway.enabled }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, httproutes, grpcroutes, tlsroutes]
  verbs: [list, watch]
# Listeners may select namespaces by their labels.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}
{{- end }}
