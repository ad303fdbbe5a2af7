import { once } from "node:events";
import { Worker } from "node:worker_threads";

/** The ordinary admissions during an attack. */
export interface LoadReport {
  readonly admissions: number;
  /** Connections that were refused or reset, and answers without the neighbour's name. */
  readonly failed: number;
  /** Reviews that were not answered within the API server's timeout. */
  readonly late: number;
  /** 99th percentile of the latency, in milliseconds. */
  readonly p99: number;
}

export interface LoadOptions {
  /** Admission reviews a second. */
  readonly rate: number;
  readonly port: number;
  /** The webhook's CA, PEM. */
  readonly ca: string;
  /** The name in its certificate. */
  readonly serverName: string;
  /** A review of an ordinary pod, as the API server sends it. */
  readonly review: object;
  /** A name that the answer's patch must contain. */
  readonly name: string;
}

/**
 * Ordinary admissions at a steady rate on kept connections, as the API server sends them. They run in a separate
 * thread, because an attack keeps this one busy.
 */
export class Neighbours {
  readonly #options: LoadOptions;

  constructor(options: LoadOptions) {
    this.#options = options;
  }

  start(): { stop(): Promise<LoadReport> } {
    const worker = new Worker(new URL("./neighbours-worker.ts", import.meta.url), { workerData: this.#options });
    return {
      async stop() {
        worker.postMessage("stop");
        const [report] = await once(worker, "message");
        return report as LoadReport;
      },
    };
  }
}
