import { z } from "zod";
import { SwitchbackError } from "../errors/errors.ts";

/** The part of an AdmissionReview request that the webhook reads. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: { readonly group: string; readonly kind: string };
  readonly operation: string;
  readonly subResource?: string | undefined;
  readonly namespace?: string | undefined;
  /** The object as the API server would store it; not looked into here. */
  readonly object?: unknown;
}

// k8s.io/api/admission/v1 types.go. Unknown fields are passed over: later API servers may send more.
const reviewSchema = z.object({
  apiVersion: z.literal("admission.k8s.io/v1"),
  kind: z.literal("AdmissionReview"),
  request: z.object({
    // The API server sends a UUID; what comes in goes out again, so it has a bound.
    uid: z.string().min(1).max(128),
    kind: z.object({ group: z.string(), kind: z.string() }),
    operation: z.string(),
    subResource: z.string().optional(),
    namespace: z.string().optional(),
    object: z.unknown().optional(),
  }),
});

/** Reads the body of a POST. Throws `input-invalid` with a sentence that names the field and holds none of its content. */
export function decodeReview(body: unknown): AdmissionRequest {
  if (!Buffer.isBuffer(body)) throw new SwitchbackError("input-invalid", "the body is empty, or not application/json");
  const review = reviewSchema.safeParse(parseJson(body));
  if (review.success) return review.data.request;
  const [issue] = review.error.issues;
  const field = issue?.path.length ? issue.path.join(".") : "the body";
  throw new SwitchbackError("input-invalid", `not an AdmissionReview v1: ${field}: ${issue?.message ?? "malformed"}`);
}

/** What the API server is told. */
export interface AdmissionAnswer {
  /** JSONPatch in base64. */
  readonly patch?: string | undefined;
  /** Shown to whoever made the pod; at most 120 characters each, as Kubernetes asks. */
  readonly warnings: readonly string[];
}

/**
 * The body of the answer: always `allowed`, since nothing of ours may block a pod.
 * Written by hand around the patch, which is base64 already: JSON.stringify would look at each of its bytes for every pod.
 */
export function encodeAnswer(uid: string, { patch, warnings }: AdmissionAnswer): string {
  const patched = patch === undefined ? "" : `,"patchType":"JSONPatch","patch":"${patch}"`;
  const warned = warnings.length === 0 ? "" : `,"warnings":${JSON.stringify(warnings)}`;
  const response = `{"uid":${JSON.stringify(uid)},"allowed":true${warned}${patched}}`;
  return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":${response}}`;
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    // V8's message quotes the text around the fault, which is the pod's content.
    throw new SwitchbackError("input-invalid", "the body is not JSON, or not all of it came");
  }
}
