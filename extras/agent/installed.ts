import * as v from "valibot";
import type { Sections } from "#extras/uninstall-part.ts";
import { leniently, section } from "#lib/config/values.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import { AGENT_SECTION } from "./config.ts";

/** Reads only the namespace, and leniently, because the install may have another version. */
const schema = section(object({ namespace: leniently(v.string(), AGENT_SECTION.schema.wrapped.entries.namespace) }));

/** The namespace of the agents of an install. Throws if the section is not valid. */
export function installedNamespace(sections: Sections): string {
  return parse(schema, sections.agent).namespace;
}
