import type { IncomingMessage } from "node:http";

/** Why a request is not even parsed: an HTTP status and a sentence. */
export interface Refusal {
  readonly status: 400 | 413 | 415 | 503;
  readonly text: string;
}

/** Reads one body; never rejects. What is refused is not kept: node:http lets the rest of it run into nothing. */
export type BodyReader = (request: IncomingMessage) => Promise<Buffer | Refusal>;

/** Bodies up to here, and so nearly all pods, are read whatever else is under way. */
const SMALL_BYTES = 64 * 1024;
/** All larger bodies under way at a time may hold this many times the limit of one. */
const LARGE_AT_A_TIME = 2;

const MEDIA: Refusal = { status: 415, text: "the body must be application/json" };
const ENCODED: Refusal = { status: 415, text: "the body must not be compressed" };
const ABORTED: Refusal = { status: 400, text: "not all of the body came" };
const BUSY: Refusal = { status: 503, text: "too many large bodies at a time" };

/**
 * A reader of bodies of at most `maxBytes`. express.raw would do but for one thing: whoever reaches the port can send many large
 * bodies at once, and together they must not end the process. (It also costs a tenth of an admission.)
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
        request.off("data", take).off("end", end).off("close", abort);
        request.resume();
        resolve(result);
      };
      const take = (chunk: Buffer): void => {
        chunks.push(chunk);
        size += chunk.length;
        if (size > maxBytes) finish(tooLarge);
        if (size > maxBytes || size <= SMALL_BYTES) return;
        // A body that turns out large is charged from its first byte.
        largeBytes += size - charged;
        charged = size;
        if (largeBytes > maxBytes * LARGE_AT_A_TIME) finish(BUSY);
      };
      const end = (): void => finish(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks));
      const abort = (): void => finish(ABORTED);
      // A client that goes away is told by `close`; its error says no more.
      request.on("data", take).on("end", end).on("close", abort).on("error", abort);
    });
  };
}

/** What the headers alone tell. */
function refusalOf({ headers }: IncomingMessage, maxBytes: number, tooLarge: Refusal): Refusal | undefined {
  if (!/^application\/json *(;|$)/i.test(headers["content-type"] ?? "")) return MEDIA;
  if ((headers["content-encoding"] ?? "identity") !== "identity") return ENCODED;
  return Number(headers["content-length"] ?? 0) > maxBytes ? tooLarge : undefined;
}
