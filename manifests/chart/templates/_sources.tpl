{{/* RBAC rules to read the source kinds (controller/sources/); "" if there are none. */}}
{{- define "switchback.sourceRules" -}}
{{- $sources := .Values.config.sources -}}
{{- if $sources.ingress.enabled }}
- apiGroups: [networking.k8s.io]
  resources: [ingresses, ingressclasses]
  verbs: [list, watch]
{{- end }}
{{- if $sources.gateway.enabled }}
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, listenersets, httproutes, grpcroutes, tlsroutes]
  verbs: [list, watch]
{{- end }}
{{- if .Values.config.policy.namespaceAnnotation }}
# A namespace's annotation lists the domains that it may claim.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- end }}
{{- $presets := include "switchback.presetKinds" . | fromYaml }}
{{- range $sources.presets }}
- apiGroups: [{{ index $presets . "group" }}]
  resources: [{{ index $presets . "resource" }}]
  verbs: [list, watch]
{{- end }}
{{- range $sources.custom }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource | quote }}]
  verbs: [list, watch]
{{- end }}
{{- if and $sources.services.enabled (not .Values.config.discovery.enabled) }}
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
{{- end }}
{{- end }}

{{/* The kinds of `sources.presets` (controller/sources/custom/presets.ts, istio.ts). YAML. */}}
{{- define "switchback.presetKinds" -}}
traefik-ingressroute: { group: traefik.io, resource: ingressroutes }
traefik-ingressroutetcp: { group: traefik.io, resource: ingressroutetcps }
istio-gateway: { group: networking.istio.io, resource: gateways }
istio-virtualservice: { group: networking.istio.io, resource: "virtualservices, gateways" }
contour-httpproxy: { group: projectcontour.io, resource: httpproxies }
openshift-route: { group: route.openshift.io, resource: routes }
{{- end }}
