{{/* For the reader of the rendered objects. It precedes those of the controller, which each install has. */}}
{{- define "switchback.header" -}}
# Switchback adds the cluster's own public names to the hosts files of pods that opted in. They lead to its proxies, which
# connect to the ingress controller. Its accounts:
# - {{ include "switchback.account" (dict "root" . "component" "controller") }} (controller): reads Ingresses, routes, Services, pods and namespaces of the cluster.
#   Writes Events, its own objects in this namespace, and caBundle of its webhook configuration. Restarts workloads where
#   it has the Role `switchback-restart` (get, patch): in the namespaces of config.optIn and config.restart (here {{ include "switchback.restartNamespaces" . | fromJsonArray | len }}).
# - {{ include "switchback.account" (dict "root" . "component" "webhook") }} (webhook): reads the map and its certificate. Changes new pods that opted in.
# - {{ include "switchback.account" (dict "root" . "component" "proxy") }} (proxies): reads what to relay to. Pods connect to the proxies.
# - switchback-uninstall: a hook creates this account for `helm uninstall`, and deletes it afterwards. Without Helm (in
#   install.yaml) it never exists. It lists all pods, deletes the webhook configuration and what the controller created,
#   restarts workloads where the controller may, and may scale the controller. It creates nothing.
# What a stolen token of each can do: docs/threat-model.md.
{{- end }}

{{/*
Controller, webhook, proxy, or all three in one (`all`): ServiceAccount, Deployment, PodDisruptionBudget.
Arguments: root, component, port (health, readiness and metrics), ports (additional ones, by name), token (whether it
calls the API server), preStop (whether it serves for a while during termination), drainSeconds, tlsSecret (to mount,
may be ""), targets (whether to mount the proxy's targets ConfigMap).
*/}}
{{- define "switchback.component" -}}
{{- include "switchback.serviceAccount" . }}
{{ include "switchback.deployment" (merge (dict "name" (printf "switchback-%s" .component) "podSpec" "switchback.podSpec") .) }}
{{- end }}

{{/* Deployment and PodDisruptionBudget. Arguments: root, component, resolver, name, podSpec (the template of the pods). */}}
{{- define "switchback.deployment" -}}
{{- $values := index .root.Values .component -}}
{{ include "switchback.object" (merge (dict "api" "apps/v1" "kind" "Deployment") .) }}
spec:
  replicas: {{ $values.replicas }}
  {{- with $values.strategy }}
  strategy: {{ toJson . }}
  {{- end }}
  {{- if $values.hostNetwork }}
  # A new pod needs a node without an old pod. With as many nodes as pods, a rollout would never begin if none may stop.
  strategy:
    rollingUpdate:
      maxUnavailable: 1
  {{- end }}
  selector:
    matchLabels:
      {{- include "switchback.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "switchback.podLabels" . | nindent 8 }}
      annotations:
        {{- include "switchback.podAnnotations" . | nindent 8 }}
    spec:
      {{- include .podSpec . | nindent 6 }}
{{- /* The controller needs none: pods need it for no request, and a new pod takes over within seconds. */}}
{{- $budget := (include "switchback.podSettings" . | fromJson).podDisruptionBudget }}
{{- if and (gt (int $values.replicas) 1) (ne .component "controller") (ne (toString $budget) "false") }}
---
{{ include "switchback.object" (merge (dict "api" "policy/v1" "kind" "PodDisruptionBudget") .) }}
spec:
  minAvailable: 1
  selector:
    matchLabels:
      {{- include "switchback.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "switchback.podSpec" -}}
{{- $values := index .root.Values .component -}}
{{- $settings := include "switchback.podSettings" . | fromJson -}}
{{- /* How long the endpoints of Services need to lose a pod that ends, also on busy nodes. Envoy Gateway waits as long (minDrainDuration). */}}
{{- $sleep := ternary 10 0 .preStop -}}
{{- $drain := ceil .drainSeconds | int }}
{{- $ends := printf "%s%d s for open requests and connections, 10 s margin." (ternary (printf "%d s until Services lose the pod (preStop), " $sleep) "" .preStop) $drain }}
{{- include "switchback.podHead" (merge (dict "seconds" (add $sleep $drain 10) "ends" $ends) .) }}
containers:
  - name: {{ .component }}
    image: {{ include "switchback.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: {{ include "switchback.command" . }}
    env:
      - name: POD_NAME
        valueFrom: { fieldRef: { fieldPath: metadata.name } }
      - name: POD_NAMESPACE
        valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
      {{- include "switchback.extra" (merge (dict "field" "extraEnv" "indent" 6) .) }}
    ports:
      - name: health
        containerPort: {{ int .port }}
      {{- range $name, $port := .ports }}
      - name: {{ $name }}
        containerPort: {{ int $port }}
      {{- end }}
    {{- include "switchback.probes" (dict "seconds" 2) | nindent 4 }}
    {{- if $sleep }}
    lifecycle:
      preStop:
        sleep:
          seconds: {{ $sleep }}
    {{- end }}
    # Requests: at rest. Limit: the heap (--max-old-space-size) and the buffers of all connections (docs/sizing.md).
    {{- include "switchback.resources" $values.resources | nindent 4 }}
    securityContext:
      {{- include "switchback.securityContext" (dict "given" $settings.containerSecurityContext "container" true) | nindent 6 }}
    volumeMounts:
      - name: config
        mountPath: /etc/switchback/config.yaml
        subPath: config.yaml
        readOnly: true
      {{- if .targets }}
      - name: targets
        mountPath: /etc/switchback/targets
        readOnly: true
      {{- end }}
      {{- if .tlsSecret }}
      - name: tls
        mountPath: /etc/switchback/tls
        readOnly: true
      {{- end }}
      {{- include "switchback.extra" (merge (dict "field" "extraVolumeMounts" "indent" 6) .) }}
volumes:
  - name: config
    configMap:
      name: switchback-config
  {{- if .targets }}
  # Used if the API server does not answer at the start. Otherwise the proxy reads the ConfigMap from the API server.
  - name: targets
    configMap:
      name: switchback-targets
      optional: true
  {{- end }}
  {{- with .tlsSecret }}
  - name: tls
    secret:
      secretName: {{ . }}
  {{- end }}
  {{- include "switchback.extra" (merge (dict "field" "extraVolumes" "indent" 2) .) }}
{{- end }}
