import type { KubeClient } from "#lib/kube/client.ts";
import type { Lease } from "#lib/kube/lease.ts";
import { KubeStatusError } from "#lib/kube/status.ts";

/** The Lease of an election in memory, with the API server's rules for get, apply and replace, and without delay. */
export class FakeLeases {
  lease: Lease | undefined;
  /** Every accepted write: the client and the holder that it wrote. */
  readonly writes: string[] = [];
  #versions = 0;

  /**
   * The client of one contender. `cut` makes its calls hang until their signal or the deadline, like a network
   * partition. `delayAnswers` delays the answer after a write has taken effect.
   */
  client(who: string): { client: KubeClient; cut(): void; heal(): void; delayAnswers(ms: number): void } {
    let isCut = false;
    let delayMs = 0;
    const call = async <T>(options: { signal?: AbortSignal; timeoutMs?: number } | undefined, work: () => T) => {
      options?.signal?.throwIfAborted();
      if (isCut) await silence(options);
      const answer = structuredClone(work());
      if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
      return answer;
    };
    const client = {
      get: (_path, _query, options) => call(options, () => this.#existing()),
      apply: (_path, object, options) => call(options, () => this.#apply(object as Lease)),
      replace: (_path, object, options) => call(options, () => this.#replace(who, object as Lease)),
    } as Pick<KubeClient, "get" | "apply" | "replace"> as KubeClient;
    return {
      client,
      cut: () => {
        isCut = true;
      },
      heal: () => {
        isCut = false;
      },
      delayAnswers: (ms) => {
        delayMs = ms;
      },
    };
  }

  #existing(): Lease {
    if (this.lease === undefined) throw new KubeStatusError("GET", 404, { reason: "NotFound", message: "" });
    return this.lease;
  }

  #apply(object: Lease): Lease {
    // An apply keeps an existing Lease, because another manager has written its fields.
    this.lease ??= this.#stored(object, crypto.randomUUID());
    return this.lease;
  }

  #replace(who: string, object: Lease): Lease {
    const { uid, resourceVersion } = this.#existing().metadata;
    if (object.metadata.resourceVersion !== resourceVersion || object.metadata.uid !== uid) {
      throw new KubeStatusError("PUT", 409, { reason: "Conflict", message: "" });
    }
    this.writes.push(`${who}: ${object.spec?.holderIdentity || "nobody"}`);
    this.lease = this.#stored(object, uid ?? "");
    return this.lease;
  }

  #stored(object: Lease, uid: string): Lease {
    const metadata = { ...object.metadata, uid, resourceVersion: String(++this.#versions) };
    return structuredClone({ ...object, metadata });
  }
}

function silence({ signal, timeoutMs = 10_000 }: { signal?: AbortSignal; timeoutMs?: number } = {}): Promise<never> {
  return new Promise((_, reject) => {
    const timer = setTimeout(() => reject(new Error("no answer")), timeoutMs);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
