import * as v from "valibot";
import type { Sections } from "#extras/uninstall-part.ts";
import { section } from "#lib/config/values.ts";
import { object } from "#lib/errors/schemas.ts";
import { parse } from "#lib/errors/validation.ts";
import { AGENT_SECTION } from "./config.ts";

/** Reads only the namespace, in any form, because the install may have another version. */
const known = AGENT_SECTION.schema.wrapped.entries.namespace;
const schema = section(object({ namespace: v.optional(v.string(), known.default) }));

/** The namespace of the agents of an install. Throws if the section is not valid. */
export function installedNamespace(sections: Sections): string {
  return parse(schema, sections.agent).namespace;
}
