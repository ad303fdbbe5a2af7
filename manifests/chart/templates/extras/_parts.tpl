{{- /* Made by `npm run gen`. This folder is copied from extras, "chart/templates": change it there. */}}

{{/* The parts of the core's templates that extras add to, and which extras do. */}}
{{- define "switchback.parts" -}}
{
  "accounts": ["agent","pod-dns"],
  "configMaps": ["publishers"],
  "enabledSections": ["agent","pod-dns"],
  "namespaces": ["agent"],
  "notes": ["agent"],
  "otherDelivery": ["pod-dns"],
  "podSections": ["agent"],
  "statusRules": ["publishers"],
  "uninstallAsks": ["publishers"],
  "uninstallClusterRules": ["agent"],
  "uninstallPatches": ["agent"],
  "uninstallRules": ["publishers"],
  "webhookEgress": ["pod-dns"]
}
{{- end }}
