{{/*
The pod settings of a component, as JSON. The settings of all pods are the defaults, and those of a hook's pod. Arguments:
root, component.
*/}}
{{- define "switchback.podSettings" -}}
{{- $values := index .root.Values .component | default dict -}}
{{- $settings := dict -}}
{{- range $field := list "priorityClassName" "securityContext" "containerSecurityContext" "podDisruptionBudget" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "dnsPolicy" "dnsConfig" "extraEnv" "extraVolumes" "extraVolumeMounts" -}}
{{- $value := index $values $field -}}
{{- $_ := set $settings $field (ternary (index $.root.Values.pods $field) $value (kindIs "invalid" $value)) -}}
{{- end -}}
{{- range $field := list "annotations" "labels" -}}
{{- $_ := set $settings $field (index $values $field | default (index $.root.Values.pods $field) | default dict) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{/* A component's ServiceAccount, unless `serviceAccount.create` is false. Arguments: root, component, namespace. */}}
{{- define "switchback.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount | default dict -}}
{{- if ne (toString $account.create) "false" -}}
{{ include "switchback.object" (merge (dict "api" "v1" "kind" "ServiceAccount" "name" (include "switchback.account" .)) .) }}
automountServiceAccountToken: false
---
{{- end }}
{{- end }}

{{/* Labels of a component's pods. Arguments: root, component, resolver. */}}
{{- define "switchback.podLabels" -}}
{{- $labels := include "switchback.labels" . | fromYaml -}}
{{- $_ := unset $labels "helm.sh/chart" -}}
{{- $_ := set $labels "app.kubernetes.io/version" .root.Chart.AppVersion -}}
{{- with .resolver }}{{ $_ := set $labels "switchback.dev/resolver" . }}{{ end -}}
{{- merge $labels (include "switchback.podSettings" . | fromJson).labels | toYaml -}}
{{- end }}

{{/* Annotations of a component's pods. A change of the configuration rolls them out. Arguments: root, component. */}}
{{- define "switchback.podAnnotations" -}}
{{- $checksum := dict "checksum/config" (include "switchback.config" .root | sha256sum) -}}
{{- merge $checksum ((include "switchback.podSettings" . | fromJson).annotations | default dict) | toYaml -}}
{{- end }}

{{/* Where a component's pods run and how they resolve names. Arguments: root, component. */}}
{{- define "switchback.placement" -}}
{{- $settings := include "switchback.podSettings" . | fromJson -}}
{{- $isInHostNetwork := (index .root.Values .component | default dict).hostNetwork | default false -}}
{{- if $isInHostNetwork }}
hostNetwork: true
{{- end }}
{{- with $settings.dnsPolicy | default (ternary "ClusterFirstWithHostNet" "" $isInHostNetwork) }}
dnsPolicy: {{ . }}
{{- end }}
{{- with $settings.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $settings.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $settings $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The start of a pod: its account, time to end, credentials, security and placement. Arguments: root, component, token
(whether it calls the API server), seconds (to end), ends (what for), context (of the security context; default: as of all pods).
*/}}
{{- define "switchback.podHead" -}}
{{- $context := dict "given" (include "switchback.podSettings" . | fromJson).securityContext -}}
serviceAccountName: {{ include "switchback.account" . }}
automountServiceAccountToken: {{ .token }}
# {{ .ends }}
terminationGracePeriodSeconds: {{ .seconds }}
{{- include "switchback.pullSecrets" .root }}
securityContext:
  {{- include "switchback.securityContext" (.context | default $context) | nindent 2 }}
{{- include "switchback.placement" . }}
{{- end }}

{{/* The probes. Arguments: seconds (the period of the readiness probe). */}}
{{- define "switchback.probes" -}}
livenessProbe:
  httpGet: { path: /healthz, port: health }
  timeoutSeconds: 5
readinessProbe:
  httpGet: { path: /readyz, port: health }
  periodSeconds: {{ .seconds }}
  timeoutSeconds: 2
{{- end }}

{{/*
The security context of a pod, or with `container` of one of our containers: that of the level restricted, with the keys
that the values replace. Arguments: given (from the values), container, more (further keys of ours).
*/}}
{{- define "switchback.securityContext" -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .container -}}
{{- $context = dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- end -}}
{{- range $keys := list .more .given -}}
{{- range $key, $value := $keys -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $context $key }}{{ else }}{{ $_ := set $context $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $lines := list -}}
{{- range $key, $value := $context }}{{ $lines = append $lines (printf "%s: %s" $key (toJson $value)) }}{{ end -}}
{{- join "\n" $lines -}}
{{- end }}

{{/* Requests and limits of a container. Argument: the values. */}}
{{- define "switchback.resources" -}}
resources:
  {{- range $key, $value := . }}
  {{ $key }}: {{ toJson $value }}
  {{- end }}
{{- end }}

{{/* The command of a component. Arguments: root, component, words (of the command; default: the component). */}}
{{- define "switchback.command" -}}
{{- $values := index .root.Values .component -}}
{{- $node := concat (list "node") ($values.nodeFlags | default list) -}}
{{- $program := concat (list "cli/main.js") (.words | default (list .component)) (list "--config" "/etc/switchback/config.yaml") -}}
{{- concat $node $program | toJson -}}
{{- end }}

{{/* Entries that the values add to a list of the container or the pod. Arguments: root, component, field, indent. */}}
{{- define "switchback.extra" -}}
{{- with index (include "switchback.podSettings" . | fromJson) .field }}
{{- toYaml . | nindent (int $.indent) }}
{{- end }}
{{- end }}
