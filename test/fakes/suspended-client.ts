import type { KubeClient } from "#lib/kube/client.ts";

const METHODS = ["get", "list", "apply", "mergePatch", "jsonPatch", "create", "replace", "delete"] as const;
const WRITES: readonly string[] = ["apply", "mergePatch", "jsonPatch", "create", "replace", "delete"];

/**
 * The client of a process that is suspended once, as SIGSTOP does it: just before its nth request is sent, or just
 * after the answer has arrived. Nothing that it asks for later happens before `resume`, and its watches show
 * nothing meanwhile.
 */
export class SuspendedClient {
  readonly client: KubeClient;
  /** Resolves when the process is suspended. */
  readonly suspended: Promise<void>;
  /** Points at which it could have been suspended, so far. */
  points = 0;
  /** Writes that the API server took after `resume`. */
  readonly taken: string[] = [];
  /** Writes and reads that failed after `resume`. */
  refused = 0;
  readonly #at: number;
  readonly #reached = Promise.withResolvers<void>();
  readonly #gate = Promise.withResolvers<void>();
  readonly #lines: (() => void)[] = [];
  #state: "running" | "suspended" | "resumed" = "running";

  /** Suspended at the point of this number, from 0. */
  constructor(client: KubeClient, at: number) {
    this.#at = at;
    this.suspended = this.#reached.promise;
    const wrapped = METHODS.map((method) => [method, (...call: unknown[]) => this.#call(client, method, call)]);
    const stream: KubeClient["stream"] = (path, query, options) =>
      client.stream(path, query, { ...options, onLine: (line) => this.#line(() => options.onLine(line)) });
    this.client = { ...client, ...Object.fromEntries(wrapped), stream } as KubeClient;
  }

  /** Goes on. The watches show what happened meanwhile before (or else after) the request that was about to be sent. */
  async resume(watchesFirst: boolean): Promise<void> {
    this.#state = "resumed";
    const show = () => {
      for (const line of this.#lines.splice(0)) line();
    };
    if (watchesFirst) show();
    this.#gate.resolve();
    if (!watchesFirst) setImmediate(show);
  }

  async #call(client: KubeClient, method: (typeof METHODS)[number], call: unknown[]): Promise<unknown> {
    await this.#point();
    const late = this.#state === "resumed";
    try {
      const answer = await (client[method] as (...parts: unknown[]) => Promise<unknown>)(...call);
      if (late && WRITES.includes(method)) this.taken.push(`${method} ${call[0]}`);
      await this.#point();
      return answer;
    } catch (error) {
      if (late) this.refused += 1;
      throw error;
    }
  }

  async #point(): Promise<void> {
    const point = this.points;
    this.points += 1;
    if (point === this.#at && this.#state === "running") {
      this.#state = "suspended";
      this.#reached.resolve();
    }
    if (this.#state === "suspended") await this.#gate.promise;
  }

  #line(show: () => void): void {
    if (this.#state === "suspended") this.#lines.push(show);
    else show();
  }
}
