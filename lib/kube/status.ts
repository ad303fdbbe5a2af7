import { SwitchbackError } from "#lib/errors/errors.ts";
import type { ApiStatus } from "./types.ts";

/** Server messages may contain whole objects, so they are truncated to this many characters. */
const MAX_MESSAGE_LENGTH = 1000;

/**
 * An error response of the API server. `status` is the HTTP status. The message contains the reason of its Status
 * (`NotFound`, `Conflict`, ...).
 */
export class KubeStatusError extends SwitchbackError {
  /** The server's Retry-After, milliseconds (429 and 503). */
  readonly retryAfterMs: number | undefined;

  constructor(what: string, status: number, from: { reason?: string; message: string; retryAfterMs?: number }) {
    // 410 is the only status with its own code: the resource version has expired, list again.
    super(status === 410 ? "kube-expired" : "kube-status", `${what}: ${status}${describeStatus(from)}`, { status });
    this.retryAfterMs = from.retryAfterMs;
  }
}

/** Returns the server's Retry-After in milliseconds, if the server sent one. */
export function retryAfterOf(error: unknown): number | undefined {
  return error instanceof KubeStatusError ? error.retryAfterMs : undefined;
}

/**
 * Creates an error from an error response. `retryAfter` is the header. Only seconds are supported, because the API
 * server sends no other format.
 */
export function statusError(what: string, status: number, body: string, retryAfter?: string): KubeStatusError {
  const parsed = parseStatus(body);
  const seconds = retryAfter === undefined ? parsed?.details?.retryAfterSeconds : Number(retryAfter);
  return new KubeStatusError(what, status, {
    message: parsed?.message ?? body.trim(),
    ...(parsed?.reason === undefined ? {} : { reason: parsed.reason }),
    ...(seconds !== undefined && seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}),
  });
}

/** Creates an error from the Status in a watch's ERROR event. */
export function watchStatusError(what: string, status: ApiStatus): KubeStatusError {
  const seconds = status.details?.retryAfterSeconds;
  return new KubeStatusError(what, status.code ?? 500, {
    message: status.message ?? "",
    ...(status.reason === undefined ? {} : { reason: status.reason }),
    ...(seconds === undefined ? {} : { retryAfterMs: seconds * 1000 }),
  });
}

function parseStatus(body: string): ApiStatus | undefined {
  try {
    const value = JSON.parse(body) as ApiStatus | null;
    return value?.kind === "Status" ? value : undefined;
  } catch {
    return undefined; // a proxy's page or plain text
  }
}

function describeStatus({ reason, message }: { reason?: string; message: string }): string {
  const truncated = message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH)}...` : message;
  return `${reason ? ` ${reason}` : ""}${truncated ? `: ${truncated}` : ""}`;
}
