import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { Agent, get } from "node:http";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ControlPlane } from "#test/cluster/controlplane.ts";
import { AGENTS } from "../controller/bed.ts";
import { type ServedProcess, serve } from "../controller/process.ts";
import { mainThreadCpuOf, memoryOf } from "../process.ts";
import type { Count } from "./counts.ts";
import type { FrontOptions, FrontRequest, StopAtWrite } from "./front.ts";
import { writeHostsFiles } from "./nodes.ts";
import { nodeName, type Population } from "./population.ts";

/** Options of a process of agents, in a file whose path is the argument. */
export interface AgentsOptions {
  /** The checkout whose agents run. */
  readonly tree: string;
  readonly url: string;
  readonly caFile: string;
  readonly folder: string;
  readonly first: number;
  readonly count: number;
  readonly population: Population;
  readonly maxStartMs: number;
}

/** The program that runs many agents. It belongs to the extra. */
const AGENTS_PROGRAM = "../../../extras/agent/bench/scale/agents.ts";
const AGENTS_A_PROCESS = 100;
/** Number of agents with their own process. */
const ALONE = 3;
const START_MS = 240_000;
const POLL_MS = 50;

/** A process of the benchmark that answers on its IPC channel. It ends with this process. */
class Worker {
  readonly #child: ChildProcess;
  readonly ended: Promise<never>;

  constructor(file: string, optionsFile: string, flags: readonly string[] = []) {
    this.#child = fork(join(import.meta.dirname, file), [optionsFile], {
      execArgv: [...flags],
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.ended = once(this.#child, "exit").then(([code, signal]) => {
      throw new Error(`${file} ended (${code ?? signal})`);
    });
    this.ended.catch(() => {});
  }

  async answer<T>(message?: FrontRequest): Promise<T> {
    const answered = once(this.#child, "message").then(([answer]) => answer as T);
    if (message !== undefined) this.#child.send(message);
    return await Promise.race([answered, this.ended]);
  }

  send(message: FrontRequest): void {
    this.#child.send(message);
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGKILL");
    await once(this.#child, "exit");
  }
}

interface Activity {
  readonly pending: number;
  readonly bytes: number;
}

/** The running front. */
export interface Front {
  readonly url: string;
  /** Number of open requests, without watches, and bytes of all responses so far. */
  activity(): Promise<Activity>;
  /** Requests since the last call, and the number of copied Leases. */
  counts(): Promise<{ readonly counts: Count[]; readonly copied: number }>;
  /** Changes this many pods. */
  touch(pods: number): Promise<void>;
  /**
   * Stops a process after its component has written ConfigMaps this many times. Resolves to false if `doNotStop`
   * canceled it.
   */
  stopAtWrite(what: StopAtWrite): Promise<boolean>;
  doNotStop(): void;
  stop(): Promise<void>;
}

let serial = 0;

/** Writes the options of a process into the control plane's folder. */
function optionsFile(cluster: ControlPlane, options: object): string {
  serial += 1;
  const path = join(cluster.folder, `bench-${serial}.json`);
  writeFileSync(path, JSON.stringify(options), { mode: 0o600 });
  return path;
}

export async function startFront(cluster: ControlPlane, population: Population, realAgents: number): Promise<Front> {
  const options: FrontOptions = {
    upstream: cluster.url,
    ca: cluster.ca.cert,
    token: cluster.adminToken,
    serving: cluster.ca.serving(["localhost", "127.0.0.1"]),
    population,
    agents: AGENTS,
    realAgents,
  };
  const worker = new Worker("front.ts", optionsFile(cluster, options));
  const { port } = await worker.answer<{ port: number }>();
  return {
    url: `https://127.0.0.1:${port}`,
    activity: () => worker.answer({ ask: "activity" }),
    counts: () => worker.answer({ ask: "counts" }),
    async touch(pods) {
      await worker.answer({ ask: "touch", pods });
    },
    async stopAtWrite(what) {
      return (await worker.answer<{ stopped: boolean }>({ ask: "stop-at-write", ...what })).stopped;
    },
    doNotStop: () => worker.send({ ask: "do-not-stop" }),
    stop: () => worker.stop(),
  };
}

/** The running agents. A few have their own process, as on a node; the others share processes with 100 agents each. */
interface Agents {
  /** Resident memory of the agents with their own process, MiB. */
  readonly memory: () => number[];
  stop(): Promise<void>;
}

/** Starts the agents of the first nodes. Resolves when all are ready. */
export async function startAgents(
  { cluster, tree, program }: { readonly cluster: ControlPlane; readonly tree: string; readonly program: string },
  front: Front,
  population: Population,
  count: number,
): Promise<Agents> {
  serial += 1;
  const folder = join(cluster.folder, `nodes-${serial}`);
  mkdirSync(folder);
  const alone = Math.min(ALONE, count);
  const processes: ServedProcess[] = [];
  const workers: Worker[] = [];
  const started: Promise<unknown>[] = [];
  const stop = async () => {
    await Promise.all([...workers, ...processes].map((each) => each.stop()));
  };
  try {
    for (let first = alone; first < count; first += AGENTS_A_PROCESS) {
      const own = { tree, population, first, count: Math.min(AGENTS_A_PROCESS, count - first) };
      const options: AgentsOptions = { ...own, url: front.url, caFile: cluster.caFile, folder, maxStartMs: START_MS };
      const worker = new Worker(AGENTS_PROGRAM, optionsFile(cluster, options), ["--max-old-space-size=6144"]);
      workers.push(worker);
      started.push(worker.answer());
    }
    for (let node = 0; node < alone; node += 1) {
      const kubeletRoot = join(folder, `node-${node}`);
      writeHostsFiles(population, node, kubeletRoot);
      const settings = [`agent.node=${nodeName(node)}`, `agent.kubeletRoot=${kubeletRoot}`];
      const through = { url: front.url, token: `agent-${node}` };
      const process = await serve(cluster, "agent", settings, { program: { path: program, tree }, through });
      processes.push(process);
      started.push(process.ready());
    }
    await Promise.all(started);
  } catch (error) {
    // Only the first error counts. The ends of the other processes cause further errors.
    for (const each of started) each.catch(() => {});
    await stop();
    throw error;
  }
  return { memory: () => processes.map(({ pid }) => memoryOf(pid).rss), stop };
}

/** Maximum response times of a health page, in milliseconds. */
export interface WorstHealth {
  readonly answer: number;
  /**
   * Maximum CPU time that the process used during one request. On a busy machine, only this part of the response time
   * is the process's own. In the rest it waited for a core.
   */
  readonly computing: number;
}

/** Requests a health page every 50 ms, from another process than the one that serves it. */
export class HealthPoll {
  readonly #asked: { readonly port: number; readonly pid: number };
  readonly #agent = new Agent({ keepAlive: true });
  #worst: WorstHealth = { answer: 0, computing: 0 };
  #stopped = false;
  readonly #done: Promise<void>;

  constructor(asked: { readonly healthPort: number; readonly pid: number }) {
    this.#asked = { port: asked.healthPort, pid: asked.pid };
    this.#done = this.#run();
  }

  /** Returns the maximum since the last call. Time before the page is served does not count. */
  take(): WorstHealth {
    const worst = this.#worst;
    this.#worst = { answer: 0, computing: 0 };
    return worst;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#done;
    this.#agent.destroy();
  }

  async #run(): Promise<void> {
    const { port, pid } = this.#asked;
    while (!this.#stopped) {
      const [at, cpu] = [performance.now(), mainThreadCpuOf(pid)];
      const served = await timeOf(port, "/healthz", {}, this.#agent).then(
        ({ ms }) => ms,
        () => 0,
      );
      if (served > 0) {
        const computing = Math.min(served, mainThreadCpuOf(pid) - cpu);
        const { answer, computing: before } = this.#worst;
        this.#worst = { answer: Math.max(answer, served), computing: Math.max(before, computing) };
      }
      await delay(Math.max(0, POLL_MS - (performance.now() - at)));
    }
  }
}

/** Requests a page of a component. Returns the time in milliseconds, and the number of bytes. */
export async function timeOf(
  port: number,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  agent?: Agent,
): Promise<{ readonly ms: number; readonly bytes: number; readonly status: number }> {
  const at = performance.now();
  return await new Promise((resolve, reject) => {
    const asked = get(
      { host: "127.0.0.1", port, path, headers, timeout: 120_000, ...(agent && { agent }) },
      (answer) => {
        let bytes = 0;
        answer.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
        });
        answer.on("end", () => resolve({ ms: performance.now() - at, bytes, status: answer.statusCode ?? 0 }));
        answer.on("error", reject);
      },
    );
    asked.on("timeout", () => asked.destroy(new Error("no answer")));
    asked.on("error", reject);
  });
}
