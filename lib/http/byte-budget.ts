import type { ServerResponse } from "node:http";

/** A request that holds bytes of a budget. */
interface ByteHolder {
  /** Gives the bytes up; called when others need them. */
  readonly evict: () => void;
}

/** A limit on the bytes that many requests hold together. */
export interface ByteBudget {
  /** Adds bytes to what a holder has. Beyond the limit, the holders that began first are evicted, perhaps this one. */
  charge(holder: ByteHolder, bytes: number): void;
  /** Returns what a holder has; nothing if it has nothing. */
  release(holder: ByteHolder): void;
}

/**
 * Creates a budget of `limit` bytes. The oldest holder gives way. An API server sends a body and reads the answer at
 * once, so a slow client is not the API server. A limit that refused new clients would refuse the API server.
 */
export function createByteBudget(limit: number): ByteBudget {
  /** In the order in which they began. */
  const held = new Map<ByteHolder, number>();
  let total = 0;
  const release = (holder: ByteHolder): void => {
    total -= held.get(holder) ?? 0;
    held.delete(holder);
  };
  return {
    charge(holder, bytes) {
      held.set(holder, (held.get(holder) ?? 0) + bytes);
      total += bytes;
      for (const oldest of held.keys()) {
        if (total <= limit) break;
        release(oldest);
        oldest.evict();
      }
    },
    release,
  };
}

/** Charges an answer until the client has read it, or is gone; if others need the bytes, the connection is closed. */
export function chargeAnswer(budget: ByteBudget, response: ServerResponse, bytes: number): void {
  const holder = { evict: () => void response.destroy() };
  budget.charge(holder, bytes);
  response.once("close", () => budget.release(holder));
}
