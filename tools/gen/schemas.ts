import { configSections } from "#cli/extras.ts";
import { AGENT_VALUES } from "#extras/agent/chart/values.ts";
import { POD_DNS_VALUES } from "#extras/pod-dns/chart/values.ts";
import { PUBLISHERS_VALUES } from "#extras/publishers/chart/values.ts";
import { configSchemaWith } from "#lib/config/schema.ts";
import { valuesSchemaWith } from "#manifests/values.ts";

// The schemas, including what the extras add.

export const sections = await configSections();
export const configSchema = configSchemaWith(sections);
export const valuesSchema = valuesSchemaWith({
  config: sections,
  values: [AGENT_VALUES, POD_DNS_VALUES, PUBLISHERS_VALUES],
});
