import { SwitchbackError } from "../errors/errors.ts";
import type { ApiStatus } from "./types.ts";

/** Server messages are for people and can hold whole objects: they are cut to this many characters. */
const LONGEST_MESSAGE = 1000;

/** The API server's refusal: `status` is the HTTP status; the message has the reason of its Status (`NotFound`, `Conflict`, ...). */
export class KubeStatusError extends SwitchbackError {
  /** How long the server asks to wait, milliseconds (429 and 503). */
  readonly retryAfterMs: number | undefined;

  constructor(what: string, status: number, from: { reason?: string; message: string; retryAfterMs?: number }) {
    // 410 is the only status with a meaning of its own: the window is lost, list again.
    super(status === 410 ? "kube-expired" : "kube-status", `${what}: ${status}${words(from)}`, { status });
    this.retryAfterMs = from.retryAfterMs;
  }
}

/** Milliseconds the server asked to wait before the next attempt, if it did. */
export function retryAfterOf(error: unknown): number | undefined {
  return error instanceof KubeStatusError ? error.retryAfterMs : undefined;
}

/** An error from an answer that is not a success. `retryAfter` is the header; only seconds are understood, as the API server sends them. */
export function statusError(what: string, status: number, body: string, retryAfter?: string): KubeStatusError {
  const parsed = parseStatus(body);
  const seconds = retryAfter === undefined ? parsed?.details?.retryAfterSeconds : Number(retryAfter);
  return new KubeStatusError(what, status, {
    message: parsed?.message ?? body.trim(),
    ...(parsed?.reason === undefined ? {} : { reason: parsed.reason }),
    ...(seconds !== undefined && seconds >= 0 ? { retryAfterMs: seconds * 1000 } : {}),
  });
}

/** An error from the Status inside a watch's ERROR event. */
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

function words({ reason, message }: { reason?: string; message: string }): string {
  const cut = message.length > LONGEST_MESSAGE ? `${message.slice(0, LONGEST_MESSAGE)}...` : message;
  return `${reason ? ` ${reason}` : ""}${cut ? `: ${cut}` : ""}`;
}
