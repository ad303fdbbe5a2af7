import type { KubeClient } from "#lib/kube/client.ts";

const METHODS = ["get", "list", "apply", "mergePatch", "jsonPatch", "create", "replace", "delete"] as const;
const WRITES: readonly string[] = ["apply", "mergePatch", "jsonPatch", "create", "replace", "delete"];

/**
 * The client of a process that is suspended once, like SIGSTOP does it. The suspension is just before its nth request
 * is sent, or just after an answer has arrived. Until `resume`, none of its later requests happens, and its watches
 * show nothing.
 */
export class SuspendedClient {
  readonly client: KubeClient;
  /** Resolves when the process is suspended. */
  readonly suspended: Promise<void>;
  /** Number of points so far at which the process could have been suspended. */
  points = 0;
  /** Writes that the API server accepted after `resume`. */
  readonly taken: string[] = [];
  /** Writes and reads that failed after `resume`. */
  refused = 0;
  readonly #at: number;
  readonly #reached = Promise.withResolvers<void>();
  readonly #gate = Promise.withResolvers<void>();
  readonly #lines: (() => void)[] = [];
  #state: "running" | "suspended" | "resumed" = "running";

  /** The process is suspended at the point with this number, from 0. */
  constructor(client: KubeClient, at: number) {
    this.#at = at;
    this.suspended = this.#reached.promise;
    const wrapped = METHODS.map((method) => [method, (...call: unknown[]) => this.#call(client, method, call)]);
    const stream: KubeClient["stream"] = (path, query, options) =>
      client.stream(path, query, { ...options, onLine: (line) => this.#line(() => options.onLine(line)) });
    this.client = { ...client, ...Object.fromEntries(wrapped), stream } as KubeClient;
  }

  /**
   * Continues the process. The watches then show what happened during the suspension. With `watchesFirst`, they show
   * it before the waiting request is sent; otherwise, after it.
   */
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
