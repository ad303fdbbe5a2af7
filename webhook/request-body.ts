import type { IncomingMessage } from "node:http";

/** Why a request is refused before it is parsed: an HTTP status and a sentence. */
export interface Refusal {
  readonly status: 400 | 413 | 415 | 503;
  readonly text: string;
}

/** Reads one body; never rejects. A refused body is not kept: node:http discards the rest of it. */
export type BodyReader = (request: IncomingMessage) => Promise<Buffer | Refusal>;

/** Bodies up to this size, and so nearly all pods, are read regardless of other requests. */
const SMALL_BYTES = 64 * 1024;
/** All larger bodies in flight together may append this many times the limit of one. */
const MAX_LARGE_BODIES = 2;

const MEDIA_TYPE: Refusal = { status: 415, text: "the body must be application/json" };
const ENCODED: Refusal = { status: 415, text: "the body must not be compressed" };
const ABORTED: Refusal = { status: 400, text: "the body is incomplete" };
const BUSY: Refusal = { status: 503, text: "too many large bodies in flight" };

/**
 * Creates a reader of bodies of at most `maxBytes`. Unlike express.raw, it limits the total of large bodies in flight: any client
 * that reaches the port could otherwise exhaust the memory. (express.raw also costs a tenth of an admission.)
 */
export function createBodyReader(maxBytes: number): BodyReader {
  const tooLarge: Refusal = { status: 413, text: `the body is larger than ${maxBytes} bytes (webhook.maxBodyBytes)` };
  let largeBytes = 0;
  return (request) => {
    const refusal = refusalOf(request, maxBytes, tooLarge);
    if (refusal !== undefined) return Promise.resolve(refusal);
    return new Promise((resolve) => {
      const chunks: Buffer[] = [];
      let size = 0;
      let charged = 0;
      const finish = (result: Buffer | Refusal): void => {
        largeBytes -= charged;
        charged = 0;
        request.off("data", append).off("end", end).off("close", abort);
        request.resume();
        resolve(result);
      };
      const append = (chunk: Buffer): void => {
        chunks.push(chunk);
        size += chunk.length;
        if (size > maxBytes) finish(tooLarge);
        if (size > maxBytes || size <= SMALL_BYTES) return;
        // Once a body counts as large, it is charged from its first byte.
        largeBytes += size - charged;
        charged = size;
        if (largeBytes > maxBytes * MAX_LARGE_BODIES) finish(BUSY);
      };
      const end = (): void => finish(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
      const abort = (): void => finish(ABORTED);
      // A disconnect is reported by `close`; the error adds nothing.
      request.on("data", append).on("end", end).on("close", abort).on("error", abort);
    });
  };
}

/** Refuses a request by its headers alone. */
function refusalOf({ headers }: IncomingMessage, maxBytes: number, tooLarge: Refusal): Refusal | undefined {
  if (!/^application\/json *(;|$)/i.test(headers["content-type"] ?? "")) return MEDIA_TYPE;
  if ((headers["content-encoding"] ?? "identity") !== "identity") return ENCODED;
  return Number(headers["content-length"] ?? 0) > maxBytes ? tooLarge : undefined;
}
