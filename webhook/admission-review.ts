import { getOrAdd } from "#hostmap/multi-map.ts";
import { describeError } from "#lib/errors/errors.ts";
import { flawAt, mapAt, textAt } from "./fields.ts";
import type { Operation } from "./json-patch.ts";

/** The part of an AdmissionReview request that the webhook reads. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: { readonly group: string; readonly kind: string };
  readonly operation: string;
  readonly subResource?: string | undefined;
  readonly namespace?: string | undefined;
  /** The object as the API server would store it; not validated here. */
  readonly object?: unknown;
  /** Why this is no review. Then every other field is empty, except a uid that can be read. */
  readonly flaw?: string;
}

const EMPTY: AdmissionRequest = { uid: "", kind: { group: "", kind: "" }, operation: "" };

const VERSION = "admission.k8s.io/v1";
const KIND = "AdmissionReview";
const MAX_UID = 128;
/** In bodies up to this size, values are not counted. */
const UNCOUNTED_BYTES = 64 * 1024;
/**
 * Maximum number of values in a larger body. Parsing 20,000 takes up to 15 ms (as keys of one object), and more would
 * delay other admissions. `[[],[],...]` takes 14 times its size on the heap. A pod has some hundreds of values, and
 * one for each of its hostnames.
 */
const MAX_VALUES = 20_000;

/**
 * Decodes the body of a POST. It never throws: a body that is no review is answered, too. The flaw names the field and
 * quotes none of its content.
 */
export function decodeReview(body: Buffer): AdmissionRequest {
  if (body.length > UNCOUNTED_BYTES && hasTooManyValues(body))
    return { ...EMPTY, flaw: `the body has more than ${MAX_VALUES} values, and no pod has that many` };
  let json: unknown;
  try {
    json = JSON.parse(body.toString("utf8"));
  } catch {
    // V8's message quotes the text around the error, which is the pod's content.
    return { ...EMPTY, flaw: "the body is not JSON, or it is incomplete" };
  }
  let uid = "";
  try {
    // k8s.io/api/admission/v1 types.go. Unknown fields are ignored: later API servers may send more.
    const { apiVersion, kind, request } = mapAt(json, "the body");
    const { uid: id, kind: of, operation, subResource = "", namespace = "", object } = mapAt(request, "request");
    uid = readUid(id);
    if (apiVersion !== VERSION) throw flawAt("apiVersion", `must be "${VERSION}"`);
    if (kind !== KIND) throw flawAt("kind", `must be "${KIND}"`);
    const { group, kind: name } = mapAt(of, "request.kind");
    return {
      uid,
      kind: { group: textAt(group, "request.kind.group"), kind: textAt(name, "request.kind.kind") },
      operation: textAt(operation, "request.operation"),
      subResource: textAt(subResource, "request.subResource"),
      namespace: textAt(namespace, "request.namespace"),
      object,
    };
  } catch (error) {
    return { ...EMPTY, uid, flaw: describeError(error) };
  }
}

/** The API server sends a UUID. The answer echoes it, so its length is limited. */
function readUid(value: unknown): string {
  const uid = textAt(value, "request.uid");
  if (uid === "" || uid.length > MAX_UID) throw flawAt("request.uid", `must have 1 to ${MAX_UID} characters`);
  return uid;
}

/**
 * Whether `body` may have more values than the limit. Each value but the first follows one of these bytes. Strings may
 * have them too. The search is native: a loop over 3 MB takes 11 ms of the 50 ms that an admission may take.
 */
function hasTooManyValues(body: Buffer): boolean {
  let count = 1;
  for (const byte of [",", "[", "{"]) {
    for (let at = body.indexOf(byte); at !== -1; at = body.indexOf(byte, at + 1)) {
      count += 1;
      if (count > MAX_VALUES) return true;
    }
  }
  return false;
}

/** The answer to the API server. */
interface AdmissionAnswer {
  readonly patch?: readonly Operation[] | undefined;
  /** Shown to the user who created the pod; at most 120 characters each, as Kubernetes recommends. */
  readonly warnings?: readonly string[];
}

/** The JSON of patches, base64: pods share patches. */
const encoded = new WeakMap<readonly Operation[], string>();

/**
 * Encodes the body of the answer. It is always `allowed`: the webhook must never block a pod. The API server refuses a
 * patch without its type, and a type without a patch (VerifyAdmissionResponse in
 * k8s.io/apiserver/pkg/admission/plugin/webhook/request).
 */
export function encodeAnswer(uid: string, { patch, warnings = [] }: AdmissionAnswer = {}): string {
  const encode = (): string => Buffer.from(JSON.stringify(patch)).toString("base64");
  const patched = patch && `,"patchType":"JSONPatch","patch":"${getOrAdd(encoded, patch, encode)}"`;
  const warned = warnings.length > 0 ? `,"warnings":${JSON.stringify(warnings)}` : "";
  // JSON.stringify would read the patch, which is the largest part, once more.
  const response = `{"uid":${JSON.stringify(uid)},"allowed":true${warned}${patched ?? ""}}`;
  return `{"apiVersion":"${VERSION}","kind":"${KIND}","response":${response}}`;
}
