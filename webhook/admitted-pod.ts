import * as v from "valibot";
import type { PodHosts } from "#hostmap/inject.ts";
import { isWindows } from "#hostmap/pack.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";

/** The fields of a pod that the webhook reads. */
export interface AdmittedPod extends PodHosts {
  readonly isWindows: boolean;
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` and `metadata.labels` exist: a JSONPatch cannot add a key to a missing object. */
  readonly hasAnnotations: boolean;
  readonly hasLabels: boolean;
  /** Names the field that has a wrong type. Then every other field is empty. */
  readonly flaw?: string;
}

const EMPTY: AdmittedPod = {
  labels: {},
  annotations: {},
  hasAnnotations: false,
  hasLabels: false,
  hostAliases: [],
  isWindows: false,
};

const strings = v.nullish(v.custom<Readonly<Record<string, string>>>(isStrings, "must be a map of strings"));
const podSchema = object({
  metadata: object({ labels: strings, annotations: strings }),
  spec: object({
    hostAliases: v.nullish(v.array(object({ ip: v.string(), hostnames: v.nullish(v.array(v.string())) }))),
    os: v.optional(v.unknown()),
    nodeSelector: v.optional(v.unknown()),
  }),
});

/** Reads a pod that the API server sent. */
export function readPod(pod: unknown): AdmittedPod {
  const { value, flaw } = attempt(podSchema, pod);
  if (flaw !== undefined) {
    // Names two levels only: below metadata.labels and similar maps, the path contains a user's text.
    return { ...EMPTY, flaw: `${flaw.path.slice(0, 2).join(".") || "the object"}: ${flaw.message}` };
  }
  const { labels, annotations } = value.metadata;
  return {
    labels: labels ?? {},
    annotations: annotations ?? {},
    hasAnnotations: isPresent(annotations),
    hasLabels: isPresent(labels),
    hostAliases: (value.spec.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] })),
    isWindows: isWindows(value.spec),
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
