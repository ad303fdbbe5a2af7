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

/** Bodies up to here can hold what they like. */
const UNCOUNTED_BYTES = 256 * 1024;
/**
 * Values in a larger one: parsed, `[[],[],...]` takes 14 times its bytes, and 8 MiB of it more than the heap that the chart gives.
 * A pod with 40,000 names has 40,000.
 */
const MAX_VALUES = 250_000;

/** Reads the body of a POST. Throws `input-invalid` with a sentence that names the field and holds none of its content. */
export function decodeReview(body: Buffer): AdmissionRequest {
  if (body.length === 0) throw new SwitchbackError("input-invalid", "the body is empty");
  if (body.length > UNCOUNTED_BYTES && countValues(body) > MAX_VALUES) {
    throw new SwitchbackError("input-invalid", `the body holds more than ${MAX_VALUES} values, which no pod does`);
  }
  const review = reviewSchema.safeParse(parseJson(body));
  if (review.success) return review.data.request;
  const [issue] = review.error.issues;
  const field = issue?.path.length ? issue.path.join(".") : "the body";
  throw new SwitchbackError("input-invalid", `not an AdmissionReview v1: ${field}: ${issue?.message ?? "malformed"}`);
}

/** What the API server is told. */
interface AdmissionAnswer {
  /** JSONPatch in base64. */
  readonly patch?: string | undefined;
  /** Shown to whoever made the pod; at most 120 characters each, as Kubernetes asks. */
  readonly warnings: readonly string[];
}

/**
 * The body of the answer, in ASCII: always `allowed`, since nothing of ours may block a pod.
 * Written by hand around the patch, which is base64 already: JSON.stringify would look at each of its bytes for every pod.
 */
export function encodeAnswer(uid: string, { patch, warnings }: AdmissionAnswer): string {
  const patched = patch === undefined ? "" : `,"patchType":"JSONPatch","patch":"${patch}"`;
  const warned = warnings.length === 0 ? "" : `,"warnings":${ascii(warnings)}`;
  const response = `{"uid":${ascii(uid)},"allowed":true${warned}${patched}}`;
  return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":${response}}`;
}

/** At least as many as `body` holds: every value but the first stands behind one of these, and texts may hold them too. */
function countValues(body: Buffer): number {
  let count = 1;
  for (const byte of body) if (byte === COMMA || byte === OPEN_LIST || byte === OPEN_MAP) count += 1;
  return count;
}

const COMMA = 0x2c;
const OPEN_LIST = 0x5b;
const OPEN_MAP = 0x7b;

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    // V8's message quotes the text around the fault, which is the pod's content.
    throw new SwitchbackError("input-invalid", "the body is not JSON, or not all of it came");
  }
}

function ascii(value: string | readonly string[]): string {
  return JSON.stringify(value).replace(
    /[\u007f-\uffff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
