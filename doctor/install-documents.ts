import * as v from "valibot";
import { checkConfig } from "#lib/config/parse.ts";
import { parseProblem, parseText } from "#lib/config/parse-text.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import { listSome } from "#lib/errors/printable.ts";
import { finite, number, object } from "#lib/errors/schemas.ts";
import { renderFlaw } from "#lib/errors/validation.ts";
import { type Fact, known, notKnown } from "./fact.ts";

// Validates the documents of an installation. Loaded only if Switchback is installed.

/**
 * Reads the configuration in a ConfigMap. Fails if another version wrote it with settings that this
 * version does not know.
 */
export async function readConfig(configMap: string, text: string, sections: readonly Section[]): Promise<Fact<Config>> {
  try {
    const { config, flaws } = checkConfig((await parseText(text)) ?? {}, sections);
    if (config !== undefined) return known(config);
    const some = listSome(flaws, 3, renderFlaw);
    return notKnown("config-unreadable", `ConfigMap ${configMap} is not valid for this version: ${some}`);
  } catch (error) {
    return notKnown("config-unreadable", `ConfigMap ${configMap} is not valid YAML: ${parseProblem(error)}`);
  }
}

const reasonSchema = object({ code: v.string(), text: v.string() });
/** An owner of opted-in pods (controller/rollout/report.ts). */
const workloadSchema = object({
  namespace: v.string(),
  kind: v.string(),
  name: v.string(),
  stale: finite,
  /** `stuck`: it stays stale until a person acts. */
  standing: v.pipe(v.string(), v.metadata({ words: "stuck waiting left in-step" })),
  ...reasonSchema.entries,
});
/** The part of the controller's status that the checks use. The controller may have another version. */
export const statusSchema = object({
  /** Whether the leader answered. Only the leader knows held removals and the state of workloads. */
  leader: v.boolean(),
  /** The revision of the published map. */
  revision: v.optional(v.string()),
  synced: v.boolean(),
  sources: v.array(
    object({
      name: v.string(),
      synced: v.boolean(),
      /** Objects that the controller refuses in whole or in part, each with its place. */
      problems: v.optional(v.array(object({ place: v.string(), ...reasonSchema.entries }))),
    }),
  ),
  hold: v.optional(object({ names: finite, of: finite, until: number(0, 8.64e15) })),
  warnings: v.array(reasonSchema),
  names: v.array(
    object({
      name: v.string(),
      reason: v.optional(reasonSchema),
      /** The addresses that the cluster's DNS returned for the name. */
      resolved: v.optional(v.array(v.string())),
    }),
  ),
  running: v.optional(object({ workloads: v.array(workloadSchema) })),
});

type Frozen<T> = T extends object ? { readonly [Key in keyof T]: Frozen<T[Key]> } : T;
export type StatusFacts = Frozen<v.InferOutput<typeof statusSchema>>;
