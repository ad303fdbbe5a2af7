import { isIP } from "node:net";
import type { HeaderQuestion } from "#lib/documents/header-questions.ts";
import type { Clock } from "../clock.ts";
import { type HostLookup, LOOKUP_TIMEOUT_MS } from "../host-resolver.ts";

interface AddressesDeps {
  readonly lookup: HostLookup;
  readonly clock: Clock;
  readonly isSelf: (address: string, port: number) => boolean;
}

/** Finds the addresses of a question's upstream. */
export class Addresses {
  readonly #deps: AddressesDeps;
  /** Running lookups. Two lookups of one name share the answer, because each occupies one of libuv's few threads. */
  readonly #inFlight = new Map<string, Promise<readonly string[]>>();

  constructor(deps: AddressesDeps) {
    this.#deps = deps;
  }

  /** The upstream's addresses, without those that lead to this proxy. Empty if the name does not resolve in time. */
  async of({ upstream, upstreamIPs, upstreamPort }: HeaderQuestion): Promise<readonly string[]> {
    const addresses = upstreamIPs ?? (isIP(upstream) === 0 ? await this.#lookUp(upstream) : [upstream]);
    return addresses.filter((address) => !this.#deps.isSelf(address, upstreamPort));
  }

  #lookUp(host: string): Promise<readonly string[]> {
    const { lookup, clock } = this.#deps;
    const found =
      this.#inFlight.get(host) ??
      lookup(host)
        .catch(() => [])
        .finally(() => this.#inFlight.delete(host));
    this.#inFlight.set(host, found);
    const { promise, resolve } = Promise.withResolvers<readonly string[]>();
    const cancel = clock.after(LOOKUP_TIMEOUT_MS, () => resolve([]));
    return Promise.race([found, promise]).finally(cancel);
  }
}
