import { SwitchbackError } from "#lib/errors/errors.ts";
import { unlessAborted } from "./time.ts";
import type { Transport } from "./transport.ts";

/** The context of a running call. */
export interface CallContext {
  /** `GET /api/v1/...`, for messages. */
  readonly what: string;
  /** Fires at the deadline and when the caller aborts. */
  readonly signal: AbortSignal;
  remainingMs(): number;
}

/**
 * Runs `work` with a deadline, and converts any error that is not a SwitchbackError to `kube-unreachable`. The call
 * ends at the deadline even if `work` does not. For example, node:http does not end a request that waits for a
 * connection. After a timeout the idle connections are dropped too, because they probably have the same fault.
 */
export async function withDeadline<T>(
  what: string,
  limits: { timeoutMs: number; signal?: AbortSignal; place?: string | undefined },
  transport: Pick<Transport, "dropIdle">,
  work: (context: CallContext) => Promise<T>,
): Promise<T> {
  const { timeoutMs, signal: outer, place } = limits;
  outer?.throwIfAborted();
  const inner = new AbortController();
  const end = performance.now() + timeoutMs;
  const timer = setTimeout(() => {
    const where = place === undefined ? "" : ` from ${place}`;
    inner.abort(new SwitchbackError("kube-unreachable", `${what}: no response within ${timeoutMs / 1000} s${where}`));
    transport.dropIdle();
  }, timeoutMs);
  const abort = () => inner.abort(outer?.reason);
  outer?.addEventListener("abort", abort, { once: true });
  try {
    const context = { what, signal: inner.signal, remainingMs: () => end - performance.now() };
    return await unlessAborted(work(context), inner.signal);
  } catch (error) {
    throw inner.signal.aborted ? inner.signal.reason : unreachable(what, error);
  } finally {
    clearTimeout(timer);
    outer?.removeEventListener("abort", abort);
  }
}

/** Returns `error` if it is a SwitchbackError, else `kube-unreachable` with it as the cause. */
export function unreachable(what: string, error: unknown): SwitchbackError {
  if (error instanceof SwitchbackError) return error;
  return new SwitchbackError("kube-unreachable", `${what}: the API server cannot be reached`, { cause: error });
}
