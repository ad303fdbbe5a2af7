import { afterEach, beforeEach, mock } from "node:test";
import { type Election, type ElectionOptions, type Lease, runElection } from "#lib/kube/lease.ts";
import type { CallOptions } from "#lib/kube/types.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { MemoryKube } from "./memory-kube.ts";
import { turns } from "./stopped-time.ts";

// Contenders for a Lease, on a clock that moves only in `pass`. It advances in steps of 100 ms, and all pending work
// runs between two steps.

let origin: number;
let contenders: Contender[] = [];

export const LEASE = "/apis/coordination.k8s.io/v1/namespaces/own/leases/leader";

/** A cluster whose Lease the contenders want. */
export class LeaseCluster extends MemoryKube {
  get lease(): Lease | undefined {
    return this.at(LEASE);
  }

  /** Writes the Lease as another client would. */
  write(lease: Partial<Lease>): void {
    this.put(LEASE, lease);
  }

  /** The holders that the contenders wrote, in order. */
  get holders(): string[] {
    const replaced = this.writes.filter(({ method }) => method === "REPLACE");
    return replaced.map(({ body }) => (body as Lease).spec?.holderIdentity || "nobody");
  }
}

/** Seconds since the test began. */
const seconds = () => (Date.now() - origin) / 1000;

/** Stops time for each test of the file. After each test, all contenders stop. */
export function useContenders(): void {
  beforeEach(() => {
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_700_000_000_000 });
    origin = Date.now();
  });
  afterEach(async () => {
    for (const { network } of contenders) network.isCut = false;
    const stopping = Promise.all(contenders.map(({ election }) => election.stop()));
    await pass(30);
    await stopping;
    contenders = [];
    mock.timers.reset();
  });
}

export async function settle(): Promise<void> {
  await turns(5);
}

export async function pass(duration: number): Promise<void> {
  await settle();
  for (let step = 0; step < duration * 10; step++) {
    mock.timers.tick(100);
    await settle();
  }
}

/** What is between a contender and the API server. */
interface Network {
  /** Calls hang until their signal or their deadline. */
  isCut: boolean;
  /** How late answers arrive, after the call has taken effect. */
  delayMs: number;
}

export interface Contender {
  election: Election;
  readonly network: Network;
  /** Entries such as `started@0`, `aborted@12.1`, `renew-deadline@12.1`. */
  log: string[];
}

export function contend(kube: LeaseCluster, identity: string, options: Partial<ElectionOptions> = {}): Contender {
  const network = { isCut: false, delayMs: 0 };
  const log: string[] = [];
  const election = runElection({
    client: clientOf(kube, network),
    namespace: "own",
    name: "leader",
    identity,
    leaseSeconds: 15,
    onStartedLeading: (signal) => {
      log.push(`started@${seconds()}`);
      signal.addEventListener("abort", () => log.push(`aborted@${seconds()}`));
    },
    log: { ...silentLogger, info: (fields) => "code" in fields && log.push(`${fields.code}@${seconds()}`) },
    now: () => Date.now(),
    random: () => 0,
    ...options,
  });
  const contender = { election, network, log };
  contenders.push(contender);
  return contender;
}

/** The client of one contender. */
function clientOf(kube: LeaseCluster, network: Network): ElectionOptions["client"] {
  const through = async <T>(options: CallOptions | undefined, call: () => T | Promise<T>): Promise<T> => {
    if (network.isCut) await silence(options);
    const answer = await call();
    if (network.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, network.delayMs));
    return answer;
  };
  return {
    get: (path, query, options) => through(options, () => kube.client.get(path, query, options)),
    // An apply without a spec keeps an existing Lease, because another manager owns the fields of its spec.
    apply: <T>(path: string, object: object, options?: CallOptions) =>
      through(options, () => (kube.lease ?? kube.put(path, object)) as T),
    replace: (path, object, options) => through(options, () => kube.client.replace(path, object, options)),
  };
}

function silence({ signal, timeoutMs }: CallOptions = {}): Promise<never> {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error("no answer")), timeoutMs);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
