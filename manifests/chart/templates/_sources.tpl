{{/* RBAC rules to read the source kinds (controller/sources/); "" if there are none. */}}
{{- define "switchback.sourceRules" -}}
{{- $sources := .Values.config.sources -}}
{{- if $sources.ingress.enabled }}
- apiGroups: [networking.k8s.io]
  resources: [ingresses, ingressclasses]
  verbs: [list, watch]
{{- end }}
{{- if $sources.gateway.enabled }}
# ListenerSets were experimental before Gateway API 1.5, in the other group.
- apiGroups: [gateway.networking.k8s.io, gateway.networking.x-k8s.io]
  resources: [gatewayclasses, gateways, listenersets, xlistenersets, httproutes, grpcroutes, tlsroutes]
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

{{/* The kinds of `sources.presets` (controller/sources/custom.ts, istio.ts). YAML. */}}
{{- define "switchback.presetKinds" -}}
traefik-ingressroute: { group: traefik.io, kind: IngressRoute, resource: ingressroutes }
traefik-ingressroutetcp: { group: traefik.io, kind: IngressRouteTCP, resource: ingressroutetcps }
istio-gateway: { group: networking.istio.io, kind: Gateway, resource: gateways }
istio-virtualservice: { group: networking.istio.io, kind: VirtualService, resource: "virtualservices, gateways" }
contour-httpproxy: { group: projectcontour.io, kind: HTTPProxy, resource: httpproxies }
openshift-route: { group: route.openshift.io, kind: Route, resource: routes }
{{- end }}

{{/*
What the controller's Events are about: workloads and their pods, and the objects of the sources. Of `sources.custom` the
kinds are not known, only their groups. `kinds` (GROUP/KIND) and `groups`. JSON.
*/}}
{{- define "switchback.eventKinds" -}}
{{- $sources := .Values.config.sources -}}
{{- $kinds := list "/Pod" "apps/Deployment" "apps/StatefulSet" "apps/DaemonSet" -}}
{{- if $sources.ingress.enabled }}{{ $kinds = append $kinds "networking.k8s.io/Ingress" }}{{ end -}}
{{- if $sources.gateway.enabled }}
{{- range list "Gateway" "ListenerSet" "HTTPRoute" "GRPCRoute" "TLSRoute" }}
{{- $kinds = append $kinds (printf "gateway.networking.k8s.io/%s" .) }}
{{- end }}
{{- $kinds = append $kinds "gateway.networking.x-k8s.io/XListenerSet" }}
{{- end }}
{{- $presets := include "switchback.presetKinds" . | fromYaml }}
{{- range $sources.presets }}
{{- $preset := index $presets . }}
{{- $kinds = append $kinds (printf "%s/%s" $preset.group $preset.kind) }}
{{- end }}
{{- if $sources.services.enabled }}{{ $kinds = append $kinds "/Service" }}{{ end -}}
{{- $groups := list }}
{{- range $sources.custom }}{{ $groups = append $groups .group }}{{ end -}}
{{ toJson (dict "kinds" $kinds "groups" (uniq $groups)) }}
{{- end }}
