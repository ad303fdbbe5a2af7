import * as v from "valibot";
import type { PodHosts } from "#hostmap/inject.ts";
import { isWindows } from "#hostmap/pack.ts";
import type { Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";

/** The fields of a pod that the webhook reads. */
export interface AdmittedPod extends PodHosts {
  readonly isWindows: boolean;
  /** `generateName` followed by `*` if the pod has no name yet. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` and `metadata.labels` exist: a JSONPatch cannot add a key to a missing object. */
  readonly hasAnnotations: boolean;
  readonly hasLabels: boolean;
}

const strings = v.nullish(v.custom<Readonly<Record<string, string>>>(isStrings, "must be a map of strings"));
const podSchema = object({
  metadata: object({
    name: v.optional(v.string()),
    generateName: v.optional(v.string()),
    labels: strings,
    annotations: strings,
  }),
  spec: object({
    hostAliases: v.nullish(v.array(object({ ip: v.string(), hostnames: v.nullish(v.array(v.string())) }))),
    os: v.optional(v.unknown()),
    nodeSelector: v.optional(v.unknown()),
  }),
});

/** Reads a pod that the API server sent, or returns a reason that names the invalid field. */
export function readPod(pod: unknown): AdmittedPod | Reason {
  const { value, flaw } = attempt(podSchema, pod);
  if (flaw !== undefined) {
    // Names two levels only: below metadata.labels and similar maps, the path contains a user's text.
    const field = flaw.path.slice(0, 2).join(".") || "the object";
    return { code: "pod-malformed", text: `the pod cannot be read: ${field}: ${flaw.message}` };
  }
  const { metadata, spec } = value;
  return {
    name: metadata.name || `${metadata.generateName ?? ""}*`,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    hasAnnotations: isPresent(metadata.annotations),
    hasLabels: isPresent(metadata.labels),
    hostAliases: (spec.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] })),
    isWindows: isWindows(spec),
  };
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isStrings(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  for (const key in value) if (typeof (value as Record<string, unknown>)[key] !== "string") return false;
  return true;
}

/** Whether `readPod` returned a pod. */
export function isPod(value: AdmittedPod | Reason): value is AdmittedPod {
  return "labels" in value;
}
