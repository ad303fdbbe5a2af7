import { afterEach, beforeEach, mock } from "node:test";
import type { ElectionOptions } from "#lib/kube/lease.ts";
import { type Election, runElection } from "#lib/kube/lease.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { FakeLeases } from "./leases.ts";
import { turns } from "./stopped-time.ts";

// Contenders for a Lease, on a clock that moves only in `pass`. It advances in steps of 100 ms, and all pending work
// runs between two steps.

let origin: number;
let contenders: Contender[] = [];

/** Seconds since the test began. */
const seconds = () => (Date.now() - origin) / 1000;

/** Stops time for each test of the file. After each test, all contenders stop. */
export function useContenders(): void {
  beforeEach(() => {
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_700_000_000_000 });
    origin = Date.now();
  });
  afterEach(async () => {
    for (const { heal } of contenders) heal();
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

export interface Contender {
  election: Election;
  cut(): void;
  heal(): void;
  delayAnswers(ms: number): void;
  /** Entries such as `started@0`, `aborted@12.1`, `renew-deadline@12.1`. */
  log: string[];
}

export function contend(leases: FakeLeases, identity: string, options: Partial<ElectionOptions> = {}): Contender {
  const { client, cut, heal, delayAnswers } = leases.client(identity);
  const log: string[] = [];
  const election = runElection({
    client,
    namespace: "own",
    name: "leader",
    identity,
    leaseSeconds: 15,
    renewDeadlineSeconds: 10,
    retrySeconds: 2,
    onStartedLeading: (signal) => {
      log.push(`started@${seconds()}`);
      signal.addEventListener("abort", () => log.push(`aborted@${seconds()}`));
    },
    onStoppedLeading: ({ code }) => log.push(`${code}@${seconds()}`),
    log: silentLogger,
    now: () => Date.now(),
    random: () => 0,
    ...options,
  });
  const contender = { election, cut, heal, delayAnswers, log };
  contenders.push(contender);
  return contender;
}
