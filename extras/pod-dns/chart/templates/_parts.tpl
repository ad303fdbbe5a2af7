{{/* What pod DNS adds to templates of the core (`switchback.added`). */}}
{{- define "switchback.pod-dns.accounts" -}}
{{- if (.Values.podDns).enabled -}}
{{- $root := dict "Values" (merge (dict "dns" .Values.podDns) .Values) -}}
{{- list (printf "%s/%s" .Release.Namespace (include "switchback.account" (dict "root" $root "component" "dns"))) | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end }}

{{- define "switchback.pod-dns.enabledSections" -}}
{{ if (.Values.podDns).enabled }}["podDns"]{{ else }}[]{{ end }}
{{- end }}

{{/* The delivery that is not the default, which a namespace's label selects. */}}
{{- define "switchback.pod-dns.otherDelivery" -}}
{{- if (.Values.podDns).enabled }}{{ ternary "hosts" "dns" (eq (.Values.config.pods.via | default "hosts") "dns") }}{{ end -}}
{{- end }}
