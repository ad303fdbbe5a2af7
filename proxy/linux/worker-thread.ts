import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { O_CLOEXEC, O_NONBLOCK } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { WORDS } from "./memory.ts";
import type { Command, Reply, WorkerData } from "./plan.ts";
import { throwOnError } from "./sockets.ts";

/** `.ts` as it stands in the repository, `.js` in the image: nothing rewrites the name of a file that is no import. */
const WORKER = new URL(`./worker${extname(import.meta.url)}`, import.meta.url);

/**
 * A connection is a handful of small objects, most of them gone before they are ever collected. Without a limit V8 lets their nursery grow
 * to tens of megabytes, and never shrinks it in a thread that does not come back to its event loop.
 */
const LIMITS = { maxYoungGenerationSizeMb: 2 };

type Report = Exclude<Reply, { kind: "ready" | "done" }>;

/** A command without the number that its answer comes under. */
type Order =
  | Omit<Extract<Command, { kind: "plan" }>, "id">
  | Omit<Extract<Command, { kind: "cut" }>, "id">
  | Omit<Extract<Command, { kind: "exit" }>, "id">;

/** The main thread's hold on one worker. */
export class WorkerThread {
  /** Resolves once the worker runs its loop; rejects if it dies before. */
  readonly ready: Promise<void>;
  /** The thread is gone; the error, if that was not asked for. */
  readonly ended: Promise<Error | undefined>;
  hasEnded = false;
  readonly #libc: Libc;
  readonly #wake: number;
  readonly #worker: Worker;
  readonly #pending = new Map<number, (count: number) => void>();
  #lastId = 0;
  #isExiting = false;

  constructor(libc: Libc, data: Omit<WorkerData, "wake">, onReport: (report: Report) => void) {
    this.#libc = libc;
    this.#wake = throwOnError("eventfd", libc.eventfd(0, O_CLOEXEC | O_NONBLOCK));
    const workerData: WorkerData = { ...data, wake: this.#wake };
    // The flags of the process are not the worker's: some of them speak of the main script.
    this.#worker = new Worker(WORKER, { workerData, execArgv: [], resourceLimits: LIMITS });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ready = promise;
    this.ready.catch(() => {});
    this.#worker.on("message", (reply: Reply) => {
      if (reply.kind === "ready") resolve();
      else if (reply.kind === "done") this.#settle(reply.id, reply.count);
      else onReport(reply);
    });
    this.ended = new Promise((end) => {
      let failure: Error | undefined;
      this.#worker.on("error", (error) => {
        failure = error instanceof Error ? error : new Error(String(error));
      });
      this.#worker.on("exit", (code) => {
        const error = failure ?? (this.#isExiting ? undefined : new Error(`the worker ended with code ${code}`));
        this.#over();
        reject(error ?? new Error("the worker has ended"));
        end(error);
      });
    });
    process.on("exit", this.#onProcessExit);
  }

  /** Has a command carried out; the count of its answer, 0 if the worker is gone. */
  execute(order: Order): Promise<number> {
    if (this.hasEnded) return Promise.resolve(0);
    this.#lastId += 1;
    const id = this.#lastId;
    if (order.kind === "exit") this.#isExiting = true;
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#pending.set(id, resolve);
    this.#worker.postMessage({ ...order, id });
    this.#ring();
    return promise;
  }

  #settle(id: number, count: number): void {
    this.#pending.get(id)?.(count);
    this.#pending.delete(id);
  }

  #over(): void {
    this.hasEnded = true;
    process.off("exit", this.#onProcessExit);
    for (const id of [...this.#pending.keys()]) this.#settle(id, 0);
    this.#libc.close(this.#wake);
  }

  /** Node waits for a thread to come back from its system call before the process ends. */
  readonly #onProcessExit = (): void => {
    this.#worker.postMessage({ kind: "exit", id: 0 } satisfies Command);
    this.#ring();
  };

  #ring(): void {
    const { words, address } = this.#libc.memory;
    words[WORDS >> 2] = 1;
    words[(WORDS >> 2) + 1] = 0;
    // The counter cannot overflow: the worker takes it back to 0 at every turn.
    throwOnError("write", this.#libc.write(this.#wake, address + WORDS, 8));
  }
}
