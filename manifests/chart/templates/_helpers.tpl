{{/* Labels of every object. Arguments: root, component (may be ""). They take precedence over commonLabels. */}}
{{- define "switchback.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version)
  "app.kubernetes.io/name" "switchback"
  "app.kubernetes.io/instance" .root.Release.Name
  "app.kubernetes.io/version" .root.Chart.AppVersion
  "app.kubernetes.io/managed-by" .root.Release.Service
  "app.kubernetes.io/part-of" "switchback" -}}
{{- with .component }}{{ $_ := set $labels "app.kubernetes.io/component" . }}{{ end -}}
{{- merge $labels (.root.Values.commonLabels | default dict) | toYaml -}}
{{- end }}

{{/*
Selector labels of a component. The controller's front Services select the proxy pods by the same two labels, and a Deployment's
selector is immutable: no label here may differ between releases.
*/}}
{{- define "switchback.selector" -}}
app.kubernetes.io/name: switchback
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Name, namespace and labels of a namespaced object. Arguments: root, component, name, namespace (default: the release's). */}}
{{- define "switchback.metadata" -}}
name: {{ .name }}
namespace: {{ .namespace | default .root.Release.Namespace }}
labels:
  {{- include "switchback.labels" . | nindent 2 }}
{{- end }}

{{- define "switchback.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/*
The configuration file: `config` of the values, the release's namespace, the namespaces that are excluded from the webhook, and the
paths of mounted certificates.
*/}}
{{- define "switchback.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "namespace" .Release.Namespace -}}
{{- $pods := merge (dict "excludedNamespaces" .Values.admission.excludedNamespaces) ($config.pods | default dict) -}}
{{- $_ := set $config "pods" $pods -}}
{{- if eq $config.certs.mode "files" -}}
{{- $_ := required "certFiles.secretName: required with config.certs.mode files" .Values.certFiles.secretName -}}
{{- $paths := dict "certFile" "/etc/switchback/tls/tls.crt" "keyFile" "/etc/switchback/tls/tls.key" -}}
{{- $_ := set $config "certs" (merge $config.certs $paths) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end }}

{{/* Whether a target is relayed by the proxy (snapshot/listeners.ts, isRelayed). "true" or "". */}}
{{- define "switchback.relayed" -}}
{{- $relayed := not .ports -}}
{{- range .ports -}}
{{- if ne (.protocol | default "v1") "none" }}{{ $relayed = true }}{{ end -}}
{{- end -}}
{{- if $relayed }}true{{ end -}}
{{- end }}

{{/* Names of the front Services that the controller manages: a JSON array. */}}
{{- define "switchback.fronts" -}}
{{- $names := list -}}
{{- range .Values.config.targets -}}
{{- if and (not .clusterIPs) (include "switchback.relayed" .) }}{{ $names = append $names (printf "switchback-%s" .name) }}{{ end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* Names of the Services whose ClusterIPs are mapped directly, without the proxy: a JSON array. */}}
{{- define "switchback.upstreams" -}}
{{- $names := list -}}
{{- range .Values.config.targets -}}
{{- if and .upstream.service (not .clusterIPs) (not (include "switchback.relayed" .)) -}}
{{- $names = append $names .upstream.service.name -}}
{{- end -}}
{{- end -}}
{{- $names | uniq | toJson -}}
{{- end }}
