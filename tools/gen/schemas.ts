import { chartValues, configSections } from "#cli/extras.ts";
import { configSchemaWith } from "#lib/config/schema.ts";
import { valuesSchemaWith } from "#manifests/values.ts";

// The schemas, including what the extras add.

export const sections = await configSections();
export const configSchema = configSchemaWith(sections);
export const valuesSchema = valuesSchemaWith({ config: sections, values: await chartValues() });
