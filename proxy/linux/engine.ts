import { availableParallelism } from "node:os";
import { describeError } from "#lib/errors/errors.ts";
import { systemClock } from "../clock.ts";
import type { DrainResult, EngineOptions, ListenerStatus, MakeEngine, RelayEngine, RelaySpec } from "../engine.ts";
import { RefusalLog } from "../refusal-log.ts";
import type { TargetStats } from "../target-stats.ts";
import { ConnectionLimiter, newConnectionLimits } from "./connection-limiter.ts";
import { newCounters, readCounters } from "./counters.ts";
import { type Libc, openLibc } from "./libc.ts";
import { ListenerSockets } from "./listener-sockets.ts";
import type { WorkerListener } from "./worker-messages.ts";
import { WorkerThread } from "./worker-thread.ts";

const POLL_MS = 5;
/** A worker costs about 8 MB. More workers are not worth it, because a proxy on a large node is one of several. */
const MAX_AUTOMATIC_WORKERS = 4;

/** The engine on epoll and splice, in worker threads; Linux only. `workers`: as `proxy.workers`, 0 is automatic. */
export function linuxEngine(workers: number): MakeEngine {
  const count = workerCount(workers, availableParallelism());
  return (options) => new LinuxEngine(options, count);
}

/**
 * The number of relay threads for `proxy.workers`. 0 means half of the cores, between 1 and 4. The other half is for
 * the kernel's side of a relayed connection, and for the other processes of the node.
 * @param cores the cores that the process may use, by its affinity and its cgroup's CPU limit
 */
export function workerCount(configured: number, cores: number): number {
  if (configured > 0) return configured;
  return Math.min(MAX_AUTOMATIC_WORKERS, Math.max(1, Math.floor(cores / 2)));
}

/**
 * The main thread's part: binds and closes the listening sockets, assigns one per listener to each worker, and reads
 * the counters that the workers write to shared memory. It relays no bytes. The kernel distributes connections over the
 * workers' sockets.
 */
class LinuxEngine implements RelayEngine {
  readonly #options: EngineOptions;
  readonly #count: number;
  readonly #libc: Libc;
  readonly #connectionLimits: SharedArrayBuffer;
  readonly #limiter: ConnectionLimiter;
  readonly #refusals: RefusalLog;
  readonly #listeners = new Map<string, ListenerSockets>();
  /** Shared counters by target, with one block per worker. */
  readonly #counters = new Map<string, readonly SharedArrayBuffer[]>();
  #workers: WorkerThread[] = [];
  #desired: RelaySpec = { listeners: [], self: { interfaceAddresses: [], frontEndpoints: [] } };
  #closed = false;
  /** Updates run one at a time. */
  #lastUpdate: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | undefined;

  constructor(options: EngineOptions, count: number) {
    this.#options = options;
    this.#count = count;
    this.#libc = openLibc();
    this.#connectionLimits = newConnectionLimits(options.limits);
    this.#limiter = new ConnectionLimiter(this.#connectionLimits, options.limits);
    this.#refusals = new RefusalLog(options.log, systemClock);
  }

  async start(desired: RelaySpec): Promise<void> {
    try {
      await this.#startWorkers();
      const [error] = await this.#enqueue(desired);
      if (error !== undefined) throw error;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async update(desired: RelaySpec): Promise<void> {
    for (const error of await this.#enqueue(desired))
      this.#options.log.error({ err: describeError(error) }, "listener not bound");
  }

  listeners(): readonly ListenerStatus[] {
    return [...this.#listeners.values()].map((listener) => listener.status());
  }

  stats(): ReadonlyMap<string, Readonly<TargetStats>> {
    return new Map([...this.#counters].map(([target, blocks]) => [target, readCounters(blocks)]));
  }

  async drain(graceMs: number): Promise<DrainResult> {
    await this.#stopAccepting();
    const open = this.#limiter.total();
    const deadline = performance.now() + graceMs;
    while (this.#limiter.total() > 0 && performance.now() < deadline && this.#closing === undefined) {
      await new Promise((resolve) => setTimeout(resolve, Math.min(POLL_MS, graceMs)));
    }
    const reset = await this.#cutConnections(undefined);
    await this.close();
    return { finished: open - reset, reset };
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  async #shutDown(): Promise<void> {
    this.#closed = true;
    await this.#stopAccepting();
    await this.#cutConnections(undefined);
    await Promise.all(
      this.#workers.map(async (worker) => {
        await worker.execute({ kind: "exit" });
        await worker.ended;
      }),
    );
  }

  async #startWorkers(): Promise<void> {
    const data = { limits: this.#options.limits, connectionLimits: this.#connectionLimits };
    for (let index = 0; index < this.#count; index += 1) {
      const worker = new WorkerThread(this.#libc, data, (report) => {
        if (report.kind === "dial") this.#options.onDial(report.report);
        else this.#refusals.record(report.cause, report.fields, report.count);
      });
      this.#workers.push(worker);
      void worker.ended.then((error) => this.#workerEnded(index, error));
    }
    await Promise.all(this.#workers.map((worker) => worker.ready));
  }

  #workerEnded(index: number, error: Error | undefined): void {
    if (error === undefined) return;
    this.#options.log.error({ worker: index, err: describeError(error) }, "a relay worker died");
    this.#options.onBroken?.(error);
  }

  #enqueue(desired: RelaySpec): Promise<unknown[]> {
    const done = this.#lastUpdate.then(() => this.#apply(desired));
    this.#lastUpdate = done.catch(() => {});
    return done;
  }

  /** Applies `desired`. Returns the errors of listeners that could not be bound. */
  async #apply(desired: RelaySpec): Promise<unknown[]> {
    if (this.#closed) return [];
    this.#desired = desired;
    await this.#removeStale(desired);
    const errors: unknown[] = [];
    for (const spec of desired.listeners) {
      this.#targetCounters(spec.target);
      const running = this.#listeners.get(spec.name);
      if (running !== undefined) {
        running.spec = spec;
        continue;
      }
      const listener = new ListenerSockets(this.#libc, spec);
      this.#listeners.set(spec.name, listener);
      try {
        listener.bind(this.#count, this.#options.limits.keepaliveMs);
      } catch (error) {
        errors.push(error);
      }
    }
    await this.#updateWorkers();
    return errors;
  }

  /** Removes listeners that are no longer desired. Runs before new ones bind: a port may move to another listener. */
  async #removeStale(desired: RelaySpec): Promise<void> {
    const dropped: ListenerSockets[] = [];
    for (const [name, listener] of this.#listeners) {
      const spec = desired.listeners.find((candidate) => candidate.name === name);
      if (spec !== undefined && listener.isBoundAs(spec)) continue;
      dropped.push(listener);
      this.#listeners.delete(name);
      if (spec === undefined) this.#cutAfterGrace(name);
    }
    if (dropped.length > 0) {
      await this.#updateWorkers();
      for (const listener of dropped) listener.close();
    }
    for (const [target, blocks] of this.#counters) {
      const isWanted = desired.listeners.some((spec) => spec.target === target);
      if (!isWanted && readCounters(blocks).active === 0) this.#counters.delete(target);
    }
  }

  #cutAfterGrace(name: string): void {
    systemClock.after(this.#options.limits.dropGraceMs, () => {
      if (!this.#listeners.has(name)) void this.#cutConnections(name);
    });
  }

  /** Sends every worker its listeners and waits until they apply. */
  async #updateWorkers(): Promise<void> {
    const bound = this.listeners().filter((listener) => listener.bound);
    await Promise.all(
      this.#workers.map((worker, index) => {
        const listeners = [...this.#listeners.values()].flatMap((sockets): WorkerListener[] => {
          const counters = this.#targetCounters(sockets.spec.target)[index];
          const listener = counters && sockets.workerListener(index, this.#desired.self, bound, counters);
          return listener === undefined ? [] : [listener];
        });
        return worker.execute({ kind: "listen", listeners });
      }),
    );
  }

  async #stopAccepting(): Promise<void> {
    await this.#lastUpdate;
    this.#closed = true;
    await Promise.all(this.#workers.map((worker) => worker.execute({ kind: "listen", listeners: [] })));
    for (const listener of this.#listeners.values()) listener.close();
  }

  async #cutConnections(listener: string | undefined): Promise<number> {
    const counts = await Promise.all(this.#workers.map((worker) => worker.execute({ kind: "cut", listener })));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  #targetCounters(target: string): readonly SharedArrayBuffer[] {
    const existing = this.#counters.get(target);
    if (existing !== undefined) return existing;
    const blocks = Array.from({ length: this.#count }, newCounters);
    this.#counters.set(target, blocks);
    return blocks;
  }
}
