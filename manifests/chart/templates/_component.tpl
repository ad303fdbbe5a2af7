{{/*
Controller, webhook or proxy: ServiceAccount, Deployment, PodDisruptionBudget.
Arguments: root, component, port (health, readiness and metrics), ports (additional ones, by name), token (whether it calls the
API server), preStop (whether it keeps serving for a while during termination), drainSeconds, tlsSecret (mounted, may be ""),
targets (whether the proxy's targets ConfigMap is mounted).
*/}}
{{- define "switchback.component" -}}
{{- $values := index .root.Values .component -}}
{{- $name := printf "switchback-%s" .component -}}
{{- $here := merge (dict "name" $name) . -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "switchback.metadata" $here | nindent 2 }}
# Pods that need a token mount it explicitly.
automountServiceAccountToken: false
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "switchback.metadata" $here | nindent 2 }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: 3
  strategy:
    type: RollingUpdate
    rollingUpdate: { maxUnavailable: 0, maxSurge: 1 }
  selector:
    matchLabels:
      {{- include "switchback.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "switchback.podLabels" . | nindent 8 }}
      annotations:
        checksum/config: {{ include "switchback.config" .root | sha256sum }}
        {{- with $values.annotations | default .root.Values.pods.annotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      {{- include "switchback.podSpec" $here | nindent 6 }}
{{- if gt (int $values.replicas) 1 }}
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

{{- define "switchback.podLabels" -}}
{{- $values := index .root.Values .component -}}
{{- $labels := include "switchback.labels" . | fromYaml -}}
{{- $_ := unset $labels "helm.sh/chart" -}}
{{- merge $labels ($values.labels | default .root.Values.pods.labels | default dict) | toYaml -}}
{{- end }}

{{- define "switchback.podSpec" -}}
{{- $pods := .root.Values.pods -}}
{{- $values := index .root.Values .component -}}
{{- $sleep := ternary (int $pods.preStopSleepSeconds) 0 .preStop -}}
serviceAccountName: {{ .name }}
automountServiceAccountToken: {{ .token }}
# Service links would set variables such as SWITCHBACK_..._PORT, which have the prefix of settings.
enableServiceLinks: false
# The preStop sleep, the drain of the process, and a margin.
terminationGracePeriodSeconds: {{ add $sleep (ceil .drainSeconds | int) 10 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- with $pods.runAsUser }}
  runAsUser: {{ int . }}
  runAsGroup: {{ int . }}
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- include "switchback.placement" . }}
containers:
  - name: {{ .component }}
    image: {{ include "switchback.image" .root | quote }}
    imagePullPolicy: {{ .root.Values.image.pullPolicy }}
    command: {{ concat (list "node") ($values.nodeFlags | default list) (list "cli/main.js" .component "--config" "/etc/switchback/config.yaml") | toJson }}
    env:
      - name: POD_NAME
        valueFrom: { fieldRef: { fieldPath: metadata.name } }
      - name: POD_NAMESPACE
        valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
    ports:
      - name: health
        containerPort: {{ int .port }}
      {{- range $name, $port := .ports }}
      - name: {{ $name }}
        containerPort: {{ int $port }}
      {{- end }}
    startupProbe:
      httpGet: { path: /healthz, port: health }
      periodSeconds: 1
      timeoutSeconds: 5
      failureThreshold: 60
    livenessProbe:
      httpGet: { path: /healthz, port: health }
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 3
    readinessProbe:
      httpGet: { path: /readyz, port: health }
      periodSeconds: 2
      timeoutSeconds: 2
      failureThreshold: 2
    {{- if $sleep }}
    lifecycle:
      preStop:
        sleep:
          seconds: {{ $sleep }}
    {{- end }}
    {{- with $values.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: [ALL]
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
volumes:
  - name: config
    configMap:
      name: switchback-config
  {{- if .targets }}
  # Used at a start without the API server; otherwise the proxy reads the ConfigMap from there.
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
{{- end }}

{{/* Scheduling of a component's pods: its own settings, else those of all pods. */}}
{{- define "switchback.placement" -}}
{{- $pods := .root.Values.pods -}}
{{- $values := index .root.Values .component -}}
{{- with $values.priorityClassName | default $pods.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $values $field | default (index $pods $field) }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "switchback.selector" $ | nindent 8 }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
