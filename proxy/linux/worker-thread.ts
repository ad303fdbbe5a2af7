import { extname } from "node:path";
import { Worker } from "node:worker_threads";
import { O_CLOEXEC, O_NONBLOCK } from "./abi.ts";
import type { Libc } from "./libc.ts";
import { WORDS_OFFSET } from "./memory.ts";
import { throwOnError } from "./sockets.ts";
import type { Command, Reply, WorkerData } from "./worker-messages.ts";

/** `.ts` in the repository, `.js` in the image: the compiler does not rewrite a file name that is not an import. */
const WORKER = new URL(`./worker${extname(import.meta.url)}`, import.meta.url);

/**
 * A connection is a few small objects, most of them dead before a collection. Without a limit V8 lets the young
 * generation grow to tens of megabytes and never shrinks it in a thread that does not return to Node's event loop.
 */
const LIMITS = { maxYoungGenerationSizeMb: 2 };

type Report = Exclude<Reply, { kind: "ready" | "done" }>;

/** A command without its id. */
type CommandWithoutId =
  | Omit<Extract<Command, { kind: "listen" }>, "id">
  | Omit<Extract<Command, { kind: "cut" }>, "id">
  | Omit<Extract<Command, { kind: "exit" }>, "id">;

/** The main thread's handle of one worker. */
export class WorkerThread {
  /** Resolves once the worker's event loop runs. Rejects if the worker dies earlier. */
  readonly ready: Promise<void>;
  /** Resolves when the thread has ended, with an error unless it received an `exit` command. */
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
    // The worker does not inherit the process's flags: some concern the main script.
    this.#worker = new Worker(WORKER, { workerData, execArgv: [], resourceLimits: LIMITS });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.ready = promise;
    this.ready.catch(() => {});
    this.#worker.on("message", (reply: Reply) => {
      if (reply.kind === "ready") resolve();
      else if (reply.kind === "done") this.#settle(reply.id, reply.count);
      else onReport(reply);
    });
    this.ended = new Promise((resolveEnded) => {
      let failure: Error | undefined;
      this.#worker.on("error", (error) => {
        failure = error instanceof Error ? error : new Error(String(error));
      });
      this.#worker.on("exit", (code) => {
        const error = failure ?? (this.#isExiting ? undefined : new Error(`the worker ended with code ${code}`));
        this.#cleanUp();
        reject(error ?? new Error("the worker has ended"));
        resolveEnded(error);
      });
    });
    process.on("exit", this.#onProcessExit);
  }

  /** Executes a command. Resolves to the count of its reply, 0 if the worker has ended. */
  execute(command: CommandWithoutId): Promise<number> {
    if (this.hasEnded) return Promise.resolve(0);
    this.#lastId += 1;
    const id = this.#lastId;
    if (command.kind === "exit") this.#isExiting = true;
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#pending.set(id, resolve);
    this.#worker.postMessage({ ...command, id });
    this.#wakeUp();
    return promise;
  }

  #settle(id: number, count: number): void {
    this.#pending.get(id)?.(count);
    this.#pending.delete(id);
  }

  #cleanUp(): void {
    this.hasEnded = true;
    process.off("exit", this.#onProcessExit);
    for (const id of [...this.#pending.keys()]) this.#settle(id, 0);
    this.#libc.close(this.#wake);
  }

  /** Node waits for a thread in a system call, so this ends it when the process exits. */
  readonly #onProcessExit = (): void => {
    this.#worker.postMessage({ kind: "exit", id: 0 } satisfies Command);
    this.#wakeUp();
  };

  #wakeUp(): void {
    const { words, address } = this.#libc.memory;
    words[WORDS_OFFSET >> 2] = 1;
    words[(WORDS_OFFSET >> 2) + 1] = 0;
    // The counter cannot overflow: the worker resets it to 0 in every round.
    throwOnError("write", this.#libc.write(this.#wake, address + WORDS_OFFSET, 8));
  }
}
