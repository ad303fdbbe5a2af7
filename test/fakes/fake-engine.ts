import type { DrainResult, EngineOptions, ListenerStatus, RelayEngine, RelaySpec } from "#proxy/engine.ts";

/** An engine that binds all listeners except those in `unbound`, and records its calls. */
export class FakeEngine implements RelayEngine {
  readonly plans: RelaySpec[] = [];
  readonly unbound = new Set<string>();
  readonly drains: number[] = [];
  readonly drained = Promise.withResolvers<DrainResult>();
  /** Calls of `start` and `update`, in order. */
  readonly calls: string[] = [];
  startsAfter: Promise<void> | undefined;
  startFails: Error | undefined;
  options: EngineOptions | undefined;

  async start(plan: RelaySpec): Promise<void> {
    this.calls.push("start");
    await this.startsAfter;
    if (this.startFails !== undefined) throw this.startFails;
    this.plans.push(plan);
  }

  async update(plan: RelaySpec): Promise<void> {
    this.calls.push("update");
    this.plans.push(plan);
  }

  listeners(): readonly ListenerStatus[] {
    return (this.plans.at(-1)?.listeners ?? []).map(({ name, target, address, port }) => {
      return { name, target, address, port, bound: !this.unbound.has(name) };
    });
  }

  stats() {
    return new Map();
  }

  drain(graceMs: number): Promise<DrainResult> {
    this.drains.push(graceMs);
    return this.drained.promise;
  }

  async close(): Promise<void> {}

  get names(): string {
    return (this.plans.at(-1)?.listeners ?? []).map(({ name }) => name).join();
  }
}
