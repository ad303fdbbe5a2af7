{{- /* Made by `npm run gen` from lib/config/defaults.ts. */}}

{{/* The chart's own Services. A front Service has none of these names. JSON. */}}
{{- define "switchback.serviceNames" -}}
["switchback-controller","switchback-webhook","switchback-proxy","switchback-agent","switchback-dns-a","switchback-dns-b"]
{{- end }}
