import * as z from "zod";
import type { PodHosts } from "../hostmap/inject.ts";
import type { Reason } from "../hostmap/types.ts";

/** The fields of a pod that the webhook reads. */
export interface AdmittedPod extends PodHosts {
  /** `generateName` followed by `*` if the pod has no name yet. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` and `metadata.labels` exist: a JSONPatch cannot add a key to a missing object. */
  readonly hasAnnotations: boolean;
  readonly hasLabels: boolean;
}

/** Not z.record, which takes 1.5 µs an entry: a dry run may have 20,000 of them. */
const strings = z
  .custom<Readonly<Record<string, string>>>(isStrings, { error: "Invalid input: expected strings by name" })
  .nullish();
const podSchema = z.object({
  metadata: z.object({
    name: z.string().optional(),
    generateName: z.string().optional(),
    labels: strings,
    annotations: strings,
  }),
  spec: z.object({
    hostAliases: z.array(z.object({ ip: z.string(), hostnames: z.array(z.string()).nullish() })).nullish(),
  }),
});

/** Reads a pod that the API server sent, or returns a reason that names the invalid field. */
export function readPod(object: unknown): AdmittedPod | Reason {
  const parsed = podSchema.safeParse(object);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    // Two levels only: below metadata.labels and the like, the path contains what a user wrote.
    const field = issue?.path.slice(0, 2).join(".") || "the object";
    return { code: "pod-malformed", text: `the pod cannot be read: ${field}: ${issue?.message}` };
  }
  const { metadata, spec } = parsed.data;
  return {
    name: metadata.name || `${metadata.generateName ?? ""}*`,
    labels: metadata.labels ?? {},
    annotations: metadata.annotations ?? {},
    hasAnnotations: isPresent(metadata.annotations),
    hasLabels: isPresent(metadata.labels),
    hostAliases: (spec.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] })),
  };
}

function isPresent(value: unknown): boolean {
  return value !== undefined && value !== null;
}

function isStrings(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => typeof each === "string");
}

/** Whether `readPod` returned a pod. */
export function isPod(value: AdmittedPod | Reason): value is AdmittedPod {
  return "labels" in value;
}
