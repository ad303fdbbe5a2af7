import type { Reason } from "#hostmap/types.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { ResolverQueries } from "./resolver-queries.ts";

interface ResolverHealthDeps {
  /** Full names of the resolvers' Services. */
  readonly services: readonly string[];
  readonly queries: ResolverQueries;
  /** A monotonic clock, milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Successful checks in a row until the resolvers are used again, so that an unreliable resolver gets no pods. One
 * failed check ends their use at once: hostAliases are always right, and a pod keeps the resolvers that it was
 * created with.
 */
const CHECKS_TO_RECOVER = 3;
/**
 * A ClusterIP changes only when its Service is recreated. It is looked up again after a failed check, and once in
 * this many checks.
 */
const CHECKS_PER_LOOK_UP = 30;
/** Maximum age of a result, in milliseconds. An older result does not count. */
const MAX_AGE_MS = 10_000;

/** Checks whether every resolver of pod DNS answers with the map. */
export class ResolverHealth {
  readonly #deps: ResolverHealthDeps;
  /** Address of each Service. The last one stays while the cluster's DNS does not answer. */
  readonly #addresses: (string | undefined)[];
  #state: readonly string[] | Reason = NOT_ASKED;
  /**
   * Successful checks since the last failed one. Starts at the limit: before any check has failed, one success is
   * enough.
   */
  #succeeded = CHECKS_TO_RECOVER;
  #checks = 0;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(deps: ResolverHealthDeps) {
    this.#deps = deps;
    this.#addresses = deps.services.map(() => undefined);
  }

  /** The addresses of all resolvers, or the reason why pods cannot get them now. */
  resolvers(): readonly string[] | Reason {
    if (this.#deps.now() - this.#checkedAt > MAX_AGE_MS) return NOT_ASKED;
    return this.#state;
  }

  /** Asks every resolver once. Never rejects. */
  async check(): Promise<void> {
    const { services, now } = this.#deps;
    const isLookUpDue = this.#checks % CHECKS_PER_LOOK_UP === 0 || "code" in this.#state;
    this.#checks += 1;
    const failures = await Promise.all(services.map((_, index) => this.#failureOf(index, isLookUpDue)));
    this.#checkedAt = now();
    const failure = failures.find((each) => each !== undefined);
    this.#succeeded = failure === undefined ? Math.min(this.#succeeded + 1, CHECKS_TO_RECOVER) : 0;
    if (failure !== undefined) this.#set(failure);
    else if (this.#succeeded >= CHECKS_TO_RECOVER)
      this.#set(this.#addresses.filter((address) => address !== undefined));
    else this.#set(RECOVERING);
  }

  async #failureOf(index: number, isLookUpDue: boolean): Promise<Reason | undefined> {
    const { services, queries } = this.#deps;
    const service = services[index] ?? "";
    try {
      if (isLookUpDue || this.#addresses[index] === undefined) {
        this.#addresses[index] = await this.#lookUp(service, this.#addresses[index]);
      }
      const address = this.#addresses[index];
      if (address === undefined) return notReady(`the Service ${service} has no address`);
      return (await queries.isAnswering(address)) ? undefined : notReady(`${service} at ${address} does not answer`);
    } catch (error) {
      return notReady(`${service} cannot be asked: ${describeError(error)}`);
    }
  }

  /** Looks up the address of a Service. While the cluster's DNS does not answer, the last known address counts. */
  async #lookUp(service: string, before: string | undefined): Promise<string | undefined> {
    try {
      return await this.#deps.queries.addressOf(service);
    } catch (error) {
      if (before === undefined) throw error;
      return before;
    }
  }

  #set(state: readonly string[] | Reason): void {
    const { log } = this.#deps;
    const [before, after] = [this.#state, state].map((each) => ("code" in each ? each.text : each.join(" ")));
    this.#state = state;
    if (before === after) return;
    if ("code" in state) log.warn({ ...state }, "pod DNS: not used");
    else log.info({ resolvers: state }, "pod DNS: used");
  }
}

const NOT_ASKED: Reason = notReady("the resolvers of pod DNS were not asked yet");
const RECOVERING: Reason = notReady("the resolvers of pod DNS answer again, but not yet for long enough");

function notReady(text: string): Reason {
  return { code: "dns-not-ready", text };
}
