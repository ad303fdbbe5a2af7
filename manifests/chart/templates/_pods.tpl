{{/*
The pod settings of a component, as JSON. The settings of all pods are the defaults. `podAnnotations` and `podLabels`,
the words of other charts, apply if `annotations` and `labels` do not have the key. Arguments: root, component.
*/}}
{{- define "switchback.podSettings" -}}
{{- $values := index .root.Values .component -}}
{{- $settings := dict -}}
{{- range $field := list "priorityClassName" "runtimeClassName" "initContainers" "extraContainers" "securityContext" "containerSecurityContext" "revisionHistoryLimit" "podDisruptionBudget" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" "dnsPolicy" "dnsConfig" "extraEnv" "extraArgs" "extraVolumes" "extraVolumeMounts" "probes" -}}
{{- $value := index $values $field -}}
{{- $_ := set $settings $field (ternary (index $.root.Values.pods $field) $value (kindIs "invalid" $value)) -}}
{{- end -}}
{{- range $field, $synonym := dict "annotations" "podAnnotations" "labels" "podLabels" -}}
{{- $own := merge (dict) (index $values $field | default dict) (index $values $synonym | default dict) -}}
{{- $all := merge (dict) (index $.root.Values.pods $field | default dict) (index $.root.Values $synonym | default dict) -}}
{{- $_ := set $settings $field ($own | default $all) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end }}

{{/* A component's ServiceAccount, unless `serviceAccount.create` is false. Arguments: root, component, namespace. */}}
{{- define "switchback.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount | default dict -}}
{{- if ne (toString $account.create) "false" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "switchback.metadata" (merge (dict "name" (include "switchback.account" .) "annotations" $account.annotations) .) | nindent 2 }}
# Pods that need a token mount it explicitly.
automountServiceAccountToken: false
---
{{- end }}
{{- end }}

{{/* Labels of a component's pods. Arguments: root, component. */}}
{{- define "switchback.podLabels" -}}
{{- $labels := include "switchback.labels" . | fromYaml -}}
{{- $_ := unset $labels "helm.sh/chart" -}}
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
{{- $isInHostNetwork := (index .root.Values .component).hostNetwork | default false -}}
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
{{- range $field := list "priorityClassName" "runtimeClassName" }}
{{- with index $settings $field }}
{{ $field }}: {{ . }}
{{- end }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $settings $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/*
How the pods of a Deployment are spread: by node and zone, unless the values have a list. A constraint without a
labelSelector gets that of the component. Zones have an affinity, not a constraint: the scheduler scores no node that
lacks a label of one of the constraints, so without zones the pods would not be spread by node either.
(https://kubernetes.io/docs/concepts/scheduling-eviction/topology-spread-constraints/#implicit-conventions)
Arguments: root, component.
*/}}
{{- define "switchback.spread" -}}
{{- $selector := dict "matchLabels" (include "switchback.selector" . | fromYaml) -}}
{{- $settings := include "switchback.podSettings" . | fromJson -}}
{{- $constraints := $settings.topologySpreadConstraints -}}
{{- if kindIs "invalid" $constraints -}}
{{- $ofRevision := dict "matchLabelKeys" (list "pod-template-hash") "labelSelector" $selector -}}
{{- $constraints = list (merge (dict "topologyKey" "kubernetes.io/hostname" "maxSkew" 1 "whenUnsatisfiable" "ScheduleAnyway") $ofRevision) -}}
{{- if not $settings.affinity }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          {{- toYaml (merge (dict "topologyKey" "topology.kubernetes.io/zone") $ofRevision) | nindent 10 }}
{{- end }}
{{- end -}}
{{- range $constraints -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set . "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- with $constraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The probes. Arguments: root, component, readinessSeconds (the period of the readiness probe). */}}
{{- define "switchback.probes" -}}
{{- $given := (include "switchback.podSettings" . | fromJson).probes | default dict -}}
{{- $timings := dict
  "startup" (dict "periodSeconds" 1 "timeoutSeconds" 5 "failureThreshold" 60)
  "liveness" (dict "periodSeconds" 10 "timeoutSeconds" 5 "failureThreshold" 3)
  "readiness" (dict "periodSeconds" .readinessSeconds "timeoutSeconds" 2 "failureThreshold" 2) -}}
{{- range $probe := list "startup" "liveness" "readiness" }}
{{ $probe }}Probe:
  httpGet: { path: {{ ternary "/readyz" "/healthz" (eq $probe "readiness") }}, port: health }
  {{- merge (dict) (index $given $probe | default dict) (index $timings $probe) | toYaml | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The security context of a pod, or with `container` of one of our containers: that of the level restricted, with the keys
that the values replace. Arguments: root, given (from the values), container, more (further keys of ours).
*/}}
{{- define "switchback.securityContext" -}}
{{- $context := dict "runAsNonRoot" true "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- if .container -}}
{{- $context = dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL")) -}}
{{- else -}}
{{- with .root.Values.pods.runAsUser }}{{ $context = merge (dict "runAsUser" . "runAsGroup" .) $context }}{{ end -}}
{{- end -}}
{{- range $keys := list .more .given -}}
{{- range $key, $value := $keys -}}
{{- if kindIs "invalid" $value }}{{ $_ := unset $context $key }}{{ else }}{{ $_ := set $context $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $context -}}
{{- end }}

{{/* The number of a workload's old revisions. Arguments: root, component. */}}
{{- define "switchback.revisionHistoryLimit" -}}
{{- $limit := (include "switchback.podSettings" . | fromJson).revisionHistoryLimit -}}
{{- ternary 3 $limit (kindIs "invalid" $limit) | int -}}
{{- end }}

{{/* Whether a component has a PodDisruptionBudget: "true" or "". Arguments: root, component. */}}
{{- define "switchback.hasBudget" -}}
{{- $wanted := (include "switchback.podSettings" . | fromJson).podDisruptionBudget -}}
{{- if and (gt (int (index .root.Values .component).replicas) 1) (ne (toString $wanted) "false") }}true{{ end -}}
{{- end }}

{{/* The command of a component. Arguments: root, component, words (of the command; default: the component). */}}
{{- define "switchback.command" -}}
{{- $values := index .root.Values .component -}}
{{- $node := concat (list "node") ($values.nodeFlags | default list) -}}
{{- $program := concat (list "cli/main.js") (.words | default (list .component)) (list "--config" "/etc/switchback/config.yaml") -}}
{{- concat $node $program ((include "switchback.podSettings" . | fromJson).extraArgs | default list) | toJson -}}
{{- end }}

{{/* Entries that the values add to a list of the container or the pod. Arguments: root, component, field, indent. */}}
{{- define "switchback.extra" -}}
{{- with index (include "switchback.podSettings" . | fromJson) .field }}
{{- toYaml . | nindent (int $.indent) }}
{{- end }}
{{- end }}
