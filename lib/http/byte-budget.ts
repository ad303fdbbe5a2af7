import type { ServerResponse } from "node:http";

/** A request that holds bytes of a budget. */
interface ByteHolder {
  /** Gives up the bytes. The budget calls it when others need them. */
  readonly evict: () => void;
}

/** A limit on the bytes that all requests hold together. */
export interface ByteBudget {
  /** Adds bytes to a holder. Above the limit, the oldest holders are evicted, which may include this one. */
  charge(holder: ByteHolder, bytes: number): void;
  /** Gives back all bytes of a holder. Does nothing if it has none. */
  release(holder: ByteHolder): void;
}

/**
 * Creates a budget of `limit` bytes. Above the limit, the oldest holder is evicted. An API server sends a body and
 * reads the answer at once, so a slow client is not the API server. A limit that refuses new clients would refuse the
 * API server.
 */
export function createByteBudget(limit: number): ByteBudget {
  /** Bytes of each holder, oldest holder first. */
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

/**
 * Charges an answer to the budget until the client has read it or is gone. If others need the bytes, the connection
 * is closed.
 */
export function chargeAnswer(budget: ByteBudget, response: ServerResponse, bytes: number): void {
  const holder = { evict: () => void response.destroy() };
  budget.charge(holder, bytes);
  response.once("close", () => budget.release(holder));
}
