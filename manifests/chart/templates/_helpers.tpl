{{/*
Labels of every object. Helm adds `app.kubernetes.io/managed-by`. They take precedence over commonLabels. Arguments:
root, component (may be "").
*/}}
{{- define "switchback.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)
  "app.kubernetes.io/name" "switchback"
  "app.kubernetes.io/instance" .root.Release.Name -}}
{{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
{{- merge $labels (.root.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{/*
Selector labels of a component. The controller's front Services select the proxy pods by the same two labels. A
Deployment's selector is immutable, so no label here may differ between releases. Arguments: component, resolver (of
pod DNS, or none).
*/}}
{{- define "switchback.selector" -}}
app.kubernetes.io/name: switchback
app.kubernetes.io/component: {{ .component }}
{{- with .resolver }}
switchback.dev/resolver: {{ . }}
{{- end }}
{{- end }}

{{/*
The component whose pods run a component: `all` for controller, webhook and proxy with `profile: small`, else itself.
Arguments: root, component.
*/}}
{{- define "switchback.process" -}}
{{- if and (eq .root.Values.profile "small") (has .component (list "controller" "webhook" "proxy")) -}}
all
{{- else -}}
{{ .component }}
{{- end -}}
{{- end }}

{{/* Selector labels of these pods. Arguments: root, component. */}}
{{- define "switchback.podsOf" -}}
{{- include "switchback.selector" (dict "component" (include "switchback.process" .)) -}}
{{- end }}

{{/*
The start of an object, up to its metadata. `commonAnnotations` replace none of ours. Arguments: root, api, kind,
component, name, namespace (default: the release's), labels and annotations (further ones), and of a hook: hook, weight,
job (whether it is the Job or pod).
*/}}
{{- define "switchback.object" -}}
apiVersion: {{ .api }}
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- if not (regexMatch "^(Cluster|Namespace$|(Mutating|Validating)[A-Z])" .kind) }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- merge (include "switchback.labels" . | fromYaml) (.labels | default dict) | toYaml | nindent 4 }}
  {{- with merge (include "switchback.hook" . | fromYaml) (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* The start of a Service, up to its selector. Arguments: as of object. */}}
{{- define "switchback.service" -}}
{{- $service := .root.Values.service | default dict -}}
{{ include "switchback.object" (merge (dict "api" "v1" "kind" "Service" "annotations" ($service.annotations | default dict)) .) }}
spec:
  {{- with $service.ipFamilyPolicy }}
  ipFamilyPolicy: {{ . }}
  {{- end }}
  {{- with $service.ipFamilies }}
  ipFamilies: {{ toJson . }}
  {{- end }}
{{- end }}

{{/* The image. `global.imageRegistry` replaces the repository's registry, or is added if it has none. */}}
{{- define "switchback.image" -}}
{{- $image := .Values.image -}}
{{- $repository := $image.repository -}}
{{- with (.Values.global | default dict).imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The registry's credentials, of the chart and of its parents. A parent may give names alone, as Bitnami's charts do. */}}
{{- define "switchback.pullSecrets" -}}
{{- $secrets := list -}}
{{- range concat ((.Values.global | default dict).imagePullSecrets | default list) (.Values.imagePullSecrets | default list) -}}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) -}}
{{- end -}}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The name of a component's ServiceAccount. Arguments: root, component. */}}
{{- define "switchback.account" -}}
{{- $process := include "switchback.process" . -}}
{{- ((index .root.Values $process).serviceAccount | default dict).name | default (printf "switchback-%s" $process) -}}
{{- end }}

{{/*
Fails if two components have the same account: RBAC and the admission policies distinguish components by it.
*/}}
{{- define "switchback.checkAccounts" -}}
{{- $accounts := list -}}
{{- range $component := ternary (list "all") (list "controller" "webhook" "proxy") (eq $.Values.profile "small") -}}
{{- $accounts = append $accounts (printf "%s/%s" $.Release.Namespace (include "switchback.account" (dict "root" $ "component" $component))) -}}
{{- end -}}
{{- $accounts = append $accounts (printf "%s/%s" .Values.config.agent.namespace (include "switchback.account" (dict "root" . "component" "agent"))) -}}
{{- if (.Values.podDns).enabled -}}
{{- $root := dict "Values" (merge (dict "dns" .Values.podDns) .Values) -}}
{{- $accounts = append $accounts (printf "%s/%s" .Release.Namespace (include "switchback.account" (dict "root" $root "component" "dns"))) -}}
{{- end -}}
{{- if ne (len $accounts) (len (uniq $accounts)) -}}
{{- fail (printf "serviceAccount.name: each component needs an account of its own, and there are %s" (join ", " $accounts)) -}}
{{- end -}}
{{- end }}

{{/*
The configuration file: `config` of the values, the release's namespace, the namespaces excluded from the webhook, and
the paths of mounted certificates. With `profile: small` the front Services select other pods, and the relay has one
worker.
*/}}
{{- define "switchback.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "namespace" .Release.Namespace -}}
{{- $pods := merge (dict "excludedNamespaces" .Values.admission.excludedNamespaces) ($config.pods | default dict) -}}
{{- $_ := set $config "pods" $pods -}}
{{- range list "agent" "podDns" -}}
{{- if (index $.Values .).enabled }}{{ $_ := set $config . (merge (dict "enabled" true) (index $config . | default dict)) }}{{ end -}}
{{- end -}}
{{- if eq .Values.profile "small" -}}
{{- $selector := include "switchback.podsOf" (dict "root" . "component" "proxy") | fromYaml -}}
{{- range $key, $value := dict "selector" $selector "workers" 1 -}}
{{- if not (hasKey $config.proxy $key) }}{{ $_ := set $config.proxy $key $value }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if eq $config.certs.mode "files" -}}
{{- $_ := required "certFiles.secretName: required with config.certs.mode files" .Values.certFiles.secretName -}}
{{- $paths := dict "certFile" "/etc/switchback/tls/tls.crt" "keyFile" "/etc/switchback/tls/tls.key" -}}
{{- $_ := set $config "certs" (merge $config.certs $paths) -}}
{{- end -}}
{{- /* JSON, which components read without a YAML parser. */ -}}
{{- toPrettyJson $config -}}
{{- end }}

{{/* The ConfigMap of the configuration. Arguments: root, namespace. */}}
{{- define "switchback.configMap" -}}
{{- $config := dict "root" .root "namespace" .namespace "component" "config" "name" "switchback-config" -}}
{{ include "switchback.object" (merge (dict "api" "v1" "kind" "ConfigMap") $config) }}
data:
  config.yaml: |
    {{- include "switchback.config" .root | nindent 4 }}
{{- end }}

{{/* The namespaces that are excluded from the webhook: a JSON array. */}}
{{- define "switchback.excludedNamespaces" -}}
{{- append .Values.admission.excludedNamespaces .Release.Namespace | uniq | toJson -}}
{{- end }}

{{/* The namespaces that opt in by name: a JSON array. Fails for one that is excluded from the webhook. */}}
{{- define "switchback.listedNamespaces" -}}
{{- $excluded := include "switchback.excludedNamespaces" . | fromJsonArray -}}
{{- $listed := (.Values.config.optIn | default dict).namespaces | default list -}}
{{- range $index, $name := $listed -}}
{{- if has $name $excluded -}}
{{- fail (printf "config.optIn.namespaces[%d]: pods of %s are never sent to the webhook; expected a namespace other than %s (admission.excludedNamespaces and the release's namespace)" $index $name (join ", " $excluded)) -}}
{{- end -}}
{{- end -}}
{{- $listed | uniq | toJson -}}
{{- end }}

{{/* The namespaces whose workloads may be restarted (lib/config/opt-in.ts, restartNamespaces): a JSON array. */}}
{{- define "switchback.restartable" -}}
{{- concat .Values.config.restart.namespaces (include "switchback.listedNamespaces" . | fromJsonArray) | uniq | toJson -}}
{{- end }}

{{/*
Those of them that exist, as JSON. Only these get Roles: one object without its namespace fails the whole release. `helm template` asks no cluster, and gets all namespaces. Namespaces that the release creates are not
looked up.
*/}}
{{- define "switchback.restartNamespaces" -}}
{{- $restartable := include "switchback.restartable" . | fromJsonArray -}}
{{- $existing := $restartable -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
{{- $existing = list -}}
{{- $made := concat (list .Release.Namespace) (ternary (list .Values.config.agent.namespace) list .Values.agent.enabled) -}}
{{- range $restartable -}}
{{- $phase := dig "status" "phase" "" (lookup "v1" "Namespace" "" .) -}}
{{- if or (has . $made) (eq $phase "Active") }}{{ $existing = append $existing . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $existing -}}
{{- end }}

{{/*
Names of the front Services that the controller manages: of the targets that the proxy relays (lib/documents/listeners.ts,
isRelayed). A JSON array.
*/}}
{{- define "switchback.fronts" -}}
{{- $names := list -}}
{{- range .Values.config.targets -}}
{{- $relayed := not .ports -}}
{{- range .ports }}{{ $relayed = or $relayed (ne .protocol "none") }}{{ end -}}
{{- if and (not .clusterIPs) $relayed }}{{ $names = append $names (printf "switchback-%s" .name) }}{{ end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}
