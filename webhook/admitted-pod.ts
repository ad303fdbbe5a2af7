import { z } from "zod";
import type { PodHosts } from "../hostmap/inject.ts";
import type { Reason } from "../hostmap/types.ts";

/** The fields of a pod that the webhook reads. */
export interface AdmittedPod extends PodHosts {
  /** `generateName` followed by `*` if the pod has no name yet. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` exists: a JSONPatch cannot add a key to a missing object. */
  readonly hasAnnotations: boolean;
}

const strings = z.record(z.string(), z.string()).nullish();
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
    hasAnnotations: metadata.annotations !== undefined && metadata.annotations !== null,
    hostAliases: (spec.hostAliases ?? []).map(({ ip, hostnames }) => ({ ip, hostnames: hostnames ?? [] })),
  };
}

/** Whether `readPod` returned a pod. */
export function isPod(value: AdmittedPod | Reason): value is AdmittedPod {
  return "labels" in value;
}
