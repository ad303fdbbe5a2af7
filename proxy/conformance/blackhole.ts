import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { pause } from "./rig.ts";

/*
 * A local address that answers no SYN: a listening socket whose thread sleeps and whose accept queue is full.
 * Linux drops further SYNs then (net.ipv4.tcp_abort_on_overflow is 0 by default).
 */
if (!isMainThread && (workerData as { blackhole?: boolean } | null)?.blackhole === true) {
  const server = createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
    parentPort?.postMessage(server.address());
    // Accepts nothing until the thread is terminated.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  });
}

export class Blackhole {
  readonly port: number;
  readonly #worker: Worker;
  readonly #fillers: Socket[];

  private constructor(port: number, worker: Worker, fillers: Socket[]) {
    this.port = port;
    this.#worker = worker;
    this.#fillers = fillers;
  }

  static async open(): Promise<Blackhole> {
    const worker = new Worker(new URL(import.meta.url), { workerData: { blackhole: true } });
    const [{ port }] = (await once(worker, "message")) as [{ port: number }];
    const fillers: Socket[] = [];
    for (let tries = 0; tries < 16; tries += 1) {
      const filler = connect(port, "127.0.0.1").on("error", () => {});
      fillers.push(filler);
      const connected = once(filler, "connect").then(() => true);
      if (!(await Promise.race([connected, pause(200).then(() => false)]))) return new Blackhole(port, worker, fillers);
    }
    throw new Error("the accept queue would not fill");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const filler of this.#fillers) filler.destroy();
    await this.#worker.terminate();
  }
}
