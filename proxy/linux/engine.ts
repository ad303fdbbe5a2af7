import { availableParallelism } from "node:os";
import { describeError } from "../../errors/errors.ts";
import { systemClock } from "../clock.ts";
import type { DrainResult, EngineOptions, ListenerStatus, MakeEngine, RelayEngine, RelayPlan } from "../engine.ts";
import { RefusalLog } from "../refusal-log.ts";
import type { TargetStats } from "../target-stats.ts";
import { ConnectionLimiter, newConnectionLimits } from "./connection-limiter.ts";
import { newCounters, readCounters } from "./counters.ts";
import { type Libc, openLibc } from "./libc.ts";
import type { WorkerListener } from "./plan.ts";
import { ListenerSockets } from "./ports.ts";
import { WorkerThread } from "./worker-thread.ts";

/** More would only share what one does alone; connections are spread by the kernel. */
const MOST_WORKERS = 4;
const POLL_MS = 5;

/** The engine on epoll and splice, in worker threads; Linux only. `workers`: 0 for one per core, at most 4. */
export function linuxEngine(workers: number): MakeEngine {
  const count = workers > 0 ? workers : Math.min(MOST_WORKERS, availableParallelism());
  return (options) => new LinuxEngine(options, count);
}

/**
 * The main thread's side: binds and closes the listening sockets, hands each worker its own, and reads the counters that the workers
 * write in shared memory. No byte of a connection passes here.
 */
class LinuxEngine implements RelayEngine {
  readonly #options: EngineOptions;
  readonly #count: number;
  readonly #libc: Libc;
  readonly #connectionLimits: SharedArrayBuffer;
  readonly #limiter: ConnectionLimiter;
  readonly #refusals: RefusalLog;
  readonly #ports = new Map<string, ListenerSockets>();
  /** By target, a block a worker. */
  readonly #counters = new Map<string, readonly SharedArrayBuffer[]>();
  #workers: WorkerThread[] = [];
  #plan: RelayPlan = { listeners: [], own: { interfaces: [], fronts: [] } };
  #closed = false;
  /** Updates run one after the other. */
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

  async start(plan: RelayPlan): Promise<void> {
    try {
      await this.#startWorkers();
      const [error] = await this.#enqueue(plan);
      if (error !== undefined) throw error;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  async update(plan: RelayPlan): Promise<void> {
    for (const error of await this.#enqueue(plan))
      this.#options.log.error({ err: describeError(error) }, "listener not bound");
  }

  listeners(): readonly ListenerStatus[] {
    return [...this.#ports.values()].map((port) => port.status());
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
    const reset = await this.#cut(undefined);
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
    await this.#cut(undefined);
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
        else this.#refusals.refused(report.cause, report.fields, report.count);
      });
      this.#workers.push(worker);
      void worker.ended.then((error) => this.#workerEnded(index, error));
    }
    await Promise.all(this.#workers.map((worker) => worker.ready));
  }

  #workerEnded(index: number, error: Error | undefined): void {
    if (error === undefined) return;
    this.#options.log.error({ worker: index, err: describeError(error) }, "a worker of the relay has died");
    this.#options.onBroken?.(error);
  }

  #enqueue(plan: RelayPlan): Promise<unknown[]> {
    const done = this.#lastUpdate.then(() => this.#apply(plan));
    this.#lastUpdate = done.catch(() => {});
    return done;
  }

  /** Goes over to `plan`; what could not be bound comes back. */
  async #apply(plan: RelayPlan): Promise<unknown[]> {
    if (this.#closed) return [];
    this.#plan = plan;
    await this.#dropOthers(plan);
    const errors: unknown[] = [];
    for (const spec of plan.listeners) {
      this.#countersOf(spec.target);
      const running = this.#ports.get(spec.name);
      if (running !== undefined) {
        running.spec = spec;
        continue;
      }
      const port = new ListenerSockets(this.#libc, spec);
      this.#ports.set(spec.name, port);
      try {
        port.bind(this.#count, this.#options.limits.keepaliveMs);
      } catch (error) {
        errors.push(error);
      }
    }
    await this.#send();
    return errors;
  }

  /** Stops what the plan no longer has, and first: a port may pass from one listener to another. */
  async #dropOthers(plan: RelayPlan): Promise<void> {
    const dropped: ListenerSockets[] = [];
    for (const [name, port] of this.#ports) {
      const spec = plan.listeners.find((candidate) => candidate.name === name);
      if (spec !== undefined && port.isBoundAs(spec)) continue;
      dropped.push(port);
      this.#ports.delete(name);
      if (spec === undefined) this.#endAfterGrace(name);
    }
    if (dropped.length > 0) {
      await this.#send();
      for (const port of dropped) port.close();
    }
    for (const [target, blocks] of this.#counters) {
      const isWanted = plan.listeners.some((spec) => spec.target === target);
      if (!isWanted && readCounters(blocks).active === 0) this.#counters.delete(target);
    }
  }

  #endAfterGrace(name: string): void {
    systemClock.after(this.#options.limits.dropGraceMs, () => {
      if (!this.#ports.has(name)) void this.#cut(name);
    });
  }

  /** Tells every worker what is to be in force, and waits until it is. */
  async #send(): Promise<void> {
    const bound = this.listeners().filter((listener) => listener.bound);
    await Promise.all(
      this.#workers.map((worker, index) => {
        const listeners = [...this.#ports.values()].flatMap((port): WorkerListener[] => {
          const counters = this.#countersOf(port.spec.target)[index];
          const listener = counters && port.forWorker(index, this.#plan.own, bound, counters);
          return listener === undefined ? [] : [listener];
        });
        return worker.execute({ kind: "plan", listeners });
      }),
    );
  }

  async #stopAccepting(): Promise<void> {
    await this.#lastUpdate;
    this.#closed = true;
    await Promise.all(this.#workers.map((worker) => worker.execute({ kind: "plan", listeners: [] })));
    for (const port of this.#ports.values()) port.close();
  }

  async #cut(listener: string | undefined): Promise<number> {
    const counts = await Promise.all(this.#workers.map((worker) => worker.execute({ kind: "cut", listener })));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  #countersOf(target: string): readonly SharedArrayBuffer[] {
    const known = this.#counters.get(target);
    if (known !== undefined) return known;
    const blocks = Array.from({ length: this.#count }, newCounters);
    this.#counters.set(target, blocks);
    return blocks;
  }
}
