{{/*
Controller, webhook, proxy, or all three in one (`all`): ServiceAccount, Deployment, PodDisruptionBudget.
Arguments: root, component, port (health, readiness and metrics), ports (additional ones, by name), token (whether it
calls the API server), preStop (whether it serves for a while during termination), drainSeconds, tlsSecret (to mount,
may be ""), targets (whether to mount the proxy's targets ConfigMap).
*/}}
{{- define "switchback.component" -}}
{{- $values := index .root.Values .component -}}
{{- $name := printf "switchback-%s" .component -}}
{{- $here := merge (dict "name" $name) . -}}
{{- include "switchback.serviceAccount" . }}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "switchback.metadata" $here | nindent 2 }}
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
      {{- include "switchback.podSpec" $here | nindent 6 }}
{{- if include "switchback.hasBudget" . }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "switchback.metadata" $here | nindent 2 }}
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
{{- /* How long the endpoints of Services need to lose a pod that ends. */}}
{{- $sleep := ternary 5 0 .preStop -}}
serviceAccountName: {{ include "switchback.account" . }}
automountServiceAccountToken: {{ .token }}
# The preStop sleep, the process's drain, and a margin.
terminationGracePeriodSeconds: {{ add $sleep (ceil .drainSeconds | int) 10 }}
{{- include "switchback.pullSecrets" .root }}
securityContext:
  {{- include "switchback.securityContext" (dict "root" .root "given" $settings.securityContext) | nindent 2 }}
{{- include "switchback.placement" . }}
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
    {{- include "switchback.resources" $values.resources | nindent 4 }}
    securityContext:
      {{- include "switchback.securityContext" (dict "root" .root "given" $settings.containerSecurityContext "container" true) | nindent 6 }}
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
