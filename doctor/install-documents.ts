import { parse } from "yaml";
import * as z from "zod";
import { type Config, configSchema } from "#lib/config/schema.ts";
import { type Fact, known, notKnown } from "./known.ts";

// Validates the documents of an installation. Loaded only if there is one: the schema and its
// library take a quarter of the doctor's CPU time.

/**
 * Reads the configuration in a ConfigMap. Fails if another version wrote it with settings that this
 * version does not know.
 */
export function readConfig(configMap: string, text: string): Fact<Config> {
  try {
    const read = configSchema.safeParse(parse(text) ?? {});
    if (read.success) return known(read.data);
    return notKnown(
      "config-unreadable",
      `ConfigMap ${configMap} is not valid for this version: ${z.prettifyError(read.error)}`,
    );
  } catch (error) {
    return notKnown("config-unreadable", `ConfigMap ${configMap} is not YAML: ${String(error)}`);
  }
}

const reasonSchema = z.object({ code: z.string(), text: z.string() });
const workloadSchema = z.object({
  namespace: z.string(),
  kind: z.string(),
  name: z.string(),
  stale: z.number(),
  standing: z.string(),
  mode: z.string().optional(),
  modeFrom: z.string().optional(),
  ...reasonSchema.shape,
});
/** The part of the controller's status that the checks use. */
export const statusSchema = z.object({
  leader: z.boolean(),
  synced: z.boolean(),
  sources: z.array(
    z.object({
      name: z.string(),
      synced: z.boolean(),
      problems: z.array(z.object({ place: z.string(), ...reasonSchema.shape })).optional(),
    }),
  ),
  hold: z.object({ names: z.number(), of: z.number(), until: z.number().min(0).max(8.64e15) }).optional(),
  warnings: z.array(reasonSchema),
  targets: z.array(
    z.object({
      name: z.string(),
      relayed: z.boolean(),
      upstream: z.string(),
      ports: z.array(z.object({ port: z.number() })),
    }),
  ),
  names: z.array(z.object({ name: z.string(), reason: reasonSchema.optional() })),
  running: z.object({ workloads: z.array(workloadSchema) }).optional(),
});
