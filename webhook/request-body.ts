import type { IncomingMessage } from "node:http";

/** Why a request is refused before it is parsed: an HTTP status and a sentence. */
export interface Refusal {
  readonly status: 400 | 413 | 415 | 503;
  readonly text: string;
}

/** Reads one body and calls `done` once. A refused body is not kept, and the rest of it is discarded. */
export type BodyReader = (request: IncomingMessage, done: (body: Buffer | Refusal) => void) => void;

/**
 * Maximum bytes of all bodies in flight together, or twice the limit of one body if that is more. The bodies of 600
 * ordinary pods take 6 MB.
 */
const MIN_BUDGET_BYTES = 8 * 1024 * 1024;
/** Memory of a chunk in addition to its bytes. It is counted, because a client may send them one by one. */
const CHUNK_BYTES = 256;

const MEDIA_TYPE: Refusal = { status: 415, text: "the body must be application/json" };
const ENCODED: Refusal = { status: 415, text: "the body must not be compressed" };
const ABORTED: Refusal = { status: 400, text: "the body is incomplete" };
const BUSY: Refusal = { status: 503, text: "too many request bodies in progress, and this one is the oldest" };

/**
 * Creates a reader of bodies of at most `maxBytes`. Unlike express.raw, it limits the total of the bodies in
 * flight: any client that reaches the port could otherwise exhaust the memory. (express.raw also costs a tenth of
 * an admission.) Beyond that total, the body that began first is refused.
 */
export function createBodyReader(
  maxBytes: number,
  budgetBytes: number = Math.max(2 * maxBytes, MIN_BUDGET_BYTES),
): BodyReader {
  const tooLarge: Refusal = { status: 413, text: `the body is larger than ${maxBytes} bytes (webhook.maxBodyBytes)` };
  /** The bytes of each body in flight, oldest first. An API server sends a body at once, so it is not the oldest. */
  const held = new Map<(refusal: Refusal) => void, number>();
  let total = 0;
  return (request, done) => {
    const announced = Number(request.headers["content-length"] ?? Number.NaN);
    const refusal = refusalOf(request, announced > maxBytes ? tooLarge : undefined);
    if (refusal !== undefined) {
      done(refusal);
      return;
    }
    let chunks: Buffer[] = [];
    let size = 0;
    let isDone = false;
    const finish = (body: Buffer | Refusal): void => {
      if (isDone) return;
      isDone = true;
      // The listeners stay as long as the client is connected, and would keep the chunks in memory.
      chunks = [];
      total -= held.get(finish) ?? 0;
      held.delete(finish);
      done(body);
    };
    const charge = (bytes: number): void => {
      held.set(finish, (held.get(finish) ?? 0) + bytes);
      total += bytes;
      for (const oldest of held.keys()) {
        if (total <= budgetBytes) break;
        oldest(BUSY);
      }
    };
    const append = (chunk: Buffer): void => {
      if (isDone) return;
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxBytes) finish(tooLarge);
      // A complete body is not charged, because its end follows at once.
      else if (size !== announced) charge(chunk.length + CHUNK_BYTES);
    };
    const abort = (): void => finish(ABORTED);
    request
      .on("data", append)
      .on("end", () => finish(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)))
      // A disconnect is reported by `close`; the error adds nothing.
      .on("close", abort)
      .on("error", abort);
  };
}

/** Refuses a request by its headers alone. */
function refusalOf({ headers }: IncomingMessage, tooLarge: Refusal | undefined): Refusal | undefined {
  const type = headers["content-type"] ?? "";
  // API servers send the first text, so their requests need no regular expression.
  if (type !== "application/json" && !/^application\/json *(;|$)/i.test(type)) return MEDIA_TYPE;
  if ((headers["content-encoding"] ?? "identity") !== "identity") return ENCODED;
  return tooLarge;
}
