import { hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { ApiStatus } from "./types.ts";

/** Server messages may contain whole objects, so they are truncated to this many characters. */
const MAX_MESSAGE_LENGTH = 1000;

/** What the API server says: its Status, and perhaps its Retry-After (429 and 503). */
interface StatusFields extends ApiStatus {
  readonly retryAfterMs?: number | undefined;
}

/**
 * An error response of the API server. `status` is the HTTP status. The message contains the reason of its Status
 * (`NotFound`, `Conflict`, ...).
 */
export class KubeStatusError extends SwitchbackError {
  /** The server's Retry-After, milliseconds (429 and 503). */
  readonly retryAfterMs: number | undefined;

  constructor(what: string, status: number, { reason, message = "", details, retryAfterMs }: StatusFields) {
    const shown = message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH)}...` : message;
    const text = `${what}: ${status}${reason ? ` ${reason}` : ""}${shown ? `: ${shown}` : ""}`;
    // 410 is the only status with its own code: the resource version has expired, list again.
    super(status === 410 ? "kube-expired" : "kube-status", text, { status });
    this.retryAfterMs = retryAfterMs ?? millisecondsOf(details?.retryAfterSeconds);
  }
}

function millisecondsOf(seconds = -1): number | undefined {
  return seconds >= 0 ? seconds * 1000 : undefined;
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
  const retryAfterMs = retryAfter === undefined ? undefined : millisecondsOf(Number(retryAfter));
  return new KubeStatusError(what, status, { message: body.trim(), ...parseStatus(body), retryAfterMs });
}

const STATUS_CODES: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "not-found",
  410: "expired",
  429: "throttled",
};

/** The code of a failed call, for a status page or a log line. */
export function problemCode(error: unknown): string {
  const status = statusOf(error);
  if (status !== undefined) return STATUS_CODES[status] ?? (status >= 500 ? "server-error" : "refused");
  if (hasCode(error, "kube-unreachable")) return "unreachable";
  if (hasCode(error, "data-corrupt")) return "corrupt";
  return "internal-error";
}

function parseStatus(body: string): ApiStatus | undefined {
  try {
    const value = JSON.parse(body) as ApiStatus | null;
    return value?.kind === "Status" ? value : undefined;
  } catch {
    return undefined; // a proxy's page or plain text
  }
}

/** Returns `error` if it is a SwitchbackError, else `kube-unreachable` with it as the cause. */
export function unreachable(what: string, error: unknown): SwitchbackError {
  if (error instanceof SwitchbackError) return error;
  return new SwitchbackError("kube-unreachable", `${what}: the API server cannot be reached`, { cause: error });
}
