import { z } from "zod";
import type { PodHosts } from "../hostmap/inject.ts";
import type { Reason } from "../hostmap/types.ts";

/** What the webhook reads of a pod. */
export interface AdmittedPod extends PodHosts {
  /** `generateName` with a `*` behind it where the name is not given yet. */
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Whether `metadata.annotations` is there: a JSONPatch cannot add below what is not. */
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

/** Reads a pod of the API server's, or says which field is not what it should be. */
export function readPod(object: unknown): AdmittedPod | Reason {
  const parsed = podSchema.safeParse(object);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    // Not deeper: below metadata.labels and the like, the path is what somebody wrote.
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

/** Whether `readPod` gave a pod. */
export function isPod(value: AdmittedPod | Reason): value is AdmittedPod {
  return "labels" in value;
}
