import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { stringify } from "yaml";
import { randomFrom } from "../pattern.ts";
import { cpuOf, memoryOf } from "../process.ts";
import {
  ENGINES,
  type EngineName,
  metricsOf,
  openFilesOf,
  type ProxyProcess,
  startProcess,
  switchbackCommand,
  untilReady,
} from "../proxy/process.ts";
import { progress } from "../report.ts";
import { bytesPerConnection, type Checkpoint, flatnessFaults } from "./flatness.ts";
import { slowPlan } from "./kinds.ts";
import { Load, type Route, STUCK_SECONDS } from "./load.ts";

/**
 * Below Linux' ephemeral range and above the clients' ports, so that the kernel assigns none of these to other
 * sockets.
 */
const FIRST_PORT = 24_500;
const PORTS = 7_000;
const MAX_FAULTS = 200;
const MINUTE_MS = 60_000;
/** A proxy may read for 30 s after its upstream has ended (LINGER_MS). The rest is for a slow machine. */
const QUIET_SECONDS = 180;
/** Number of checkpoints, including the first and the last; below, the minimum and maximum time between two of them. */
const CHECKPOINTS = 10;
const LEAST_SEGMENT_S = 20;
const LONGEST_SEGMENT_S = 600;
const DRAIN_SECONDS = 20;
const NOBODY_LISTENS = 1;

interface Options {
  readonly seconds: number;
  readonly engine: EngineName;
  readonly workers: number;
  readonly rate: number;
  readonly seed: number;
  readonly json: string | undefined;
}

type Outcome = "running" | "passed" | "failed" | "interrupted";

/**
 * `npm run bench -- soak [--hours 2 | --seconds N] [--engine portable|linux] [--workers 2] [--rate 60] [--seed N]
 * [--json FILE]`
 *
 * Runs the proxy as a separate process of an unprivileged user. This process has all its clients and upstreams. The
 * exit code is 1 if a byte was wrong, if an end saw an event that the other end did not cause, or if memory or files
 * have grown.
 */
export async function run(argv: string[]): Promise<void> {
  const soak = new Soak(optionsFrom(argv));
  const interrupt = (): void => soak.interrupt();
  process.once("SIGINT", interrupt);
  process.once("SIGTERM", interrupt);
  const outcome = await soak.run();
  process.off("SIGINT", interrupt);
  process.off("SIGTERM", interrupt);
  if (outcome !== "passed") process.exitCode = 1;
}

function optionsFrom(argv: string[]): Options {
  const { values } = parseArgs({
    args: argv,
    options: {
      hours: { type: "string", default: "2" },
      seconds: { type: "string" },
      engine: { type: "string", default: "linux" },
      workers: { type: "string", default: "2" },
      rate: { type: "string", default: "60" },
      seed: { type: "string", default: String(Date.now() % 1_000_000) },
      json: { type: "string" },
    },
  });
  const { hours, seconds: given, workers, rate, seed, json } = values;
  const numbers = { hours, seconds: given, workers, rate, seed };
  for (const [name, text] of Object.entries(numbers)) {
    if (text !== undefined && !(Number(text) > 0)) throw new Error(`--${name} ${text}: expected a number above 0`);
  }
  const engine = ENGINES.find((name) => name === values.engine);
  if (engine === undefined) throw new Error(`--engine ${values.engine}: expected ${ENGINES.join(" or ")}`);
  const seconds = given === undefined ? Number(hours) * 3600 : Number(given);
  return { seconds, engine, workers: Number(workers), rate: Number(rate), seed: Number(seed), json };
}

class Soak {
  readonly #options: Options;
  readonly #faults: string[] = [];
  readonly #checkpoints: Checkpoint[] = [];
  readonly #samples: object[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "switchback-soak-"));
  readonly #startedAt = performance.now();
  readonly #started = new Date().toISOString();
  #healthPort = 0;
  #routes: readonly Route[] = [];
  #loadedSeconds = 0;
  #interrupted = false;
  #faultCount = 0;
  #metrics: Readonly<Record<string, number>> | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  interrupt(): void {
    this.#interrupted = true;
  }

  async run(): Promise<Outcome> {
    const { rate, seed } = this.#options;
    const hasIpv6 = networkInterfaces().lo?.some(({ family }) => family === "IPv6") === true;
    this.#routes = await this.#chooseRoutes(hasIpv6);
    const onFault = ({ kind, id, text }: { kind: string; id: number; text: string }): void =>
      this.#fault(`${kind} (connection ${id}): ${text}`);
    const load = new Load({ routes: this.#routes, rate, seed, hasIpv6, onFault });
    await load.listen();
    // The unprivileged proxy reads its configuration from this folder.
    chmodSync(this.#folder, 0o755);
    const config = join(this.#folder, "config.yaml");
    writeFileSync(config, stringify(this.#config(hasIpv6)));
    const { engine, workers } = this.#options;
    const proxy = startProcess(switchbackCommand(engine, workers, config), join(this.#folder, "proxy.log"));
    const minutes = setInterval(() => this.#minute(proxy, load), MINUTE_MS);
    try {
      await Promise.race([this.#soak(proxy, load), proxy.ended]);
    } catch (error) {
      this.#fault((error as Error).message);
    }
    clearInterval(minutes);
    await proxy.stop();
    await load.close();
    return this.#conclude(load);
  }

  async #soak(proxy: ProxyProcess, load: Load): Promise<void> {
    await untilReady(proxy, this.#healthPort);
    const { seconds, rate, seed, engine } = this.#options;
    progress(`soak: ${seconds} s at ${rate} connections a second, seed ${seed}, engine ${engine}`);
    progress(`proxy: process ${proxy.pid}, log and configuration in ${this.#folder}`);
    await delay(1_000);
    await this.#checkpoint(proxy, load);
    const wanted = seconds / (CHECKPOINTS - 1);
    const segment = Math.min(Math.max(wanted, LEAST_SEGMENT_S), LONGEST_SEGMENT_S);
    while (this.#loadedSeconds < seconds && !this.#isOver()) {
      await this.#loadFor(Math.min(segment, seconds - this.#loadedSeconds), load);
      await this.#checkpoint(proxy, load);
    }
    this.#metrics = await metricsOf(this.#healthPort);
    await this.#drain(proxy, load);
  }

  #isOver(): boolean {
    return this.#interrupted || this.#faultCount >= MAX_FAULTS;
  }

  async #loadFor(seconds: number, load: Load): Promise<void> {
    const from = load.seconds;
    load.start();
    while (load.seconds - from < seconds && !this.#isOver()) await delay(200);
    load.pause();
    this.#loadedSeconds += load.seconds - from;
  }

  /** Lets all connections end. Then records what the proxy still holds. */
  async #checkpoint(proxy: ProxyProcess, load: Load): Promise<void> {
    const deadline = load.seconds + STUCK_SECONDS + QUIET_SECONDS;
    while (load.open > 0 && load.seconds < deadline && !this.#interrupted) await delay(100);
    if (this.#interrupted) return;
    if (load.open > 0) this.#fault(`${load.open} connections do not end though no new ones are begun`);
    const sockets = this.#checkpoints[0]?.files.sockets;
    const quietBy = load.seconds + QUIET_SECONDS;
    while (sockets !== undefined && openFilesOf(proxy.pid).sockets !== sockets && load.seconds < quietBy) {
      await delay(250);
    }
    await delay(500);
    const active = (await metricsOf(this.#healthPort))?.connections_active;
    await delay(200);
    const { rss } = memoryOf(proxy.pid);
    const files = openFilesOf(proxy.pid);
    const threads = Number(/^Threads:\s+(\d+)/m.exec(readFileSync(`/proc/${proxy.pid}/status`, "utf8"))?.[1]);
    const at = (performance.now() - this.#startedAt) / 1_000;
    this.#checkpoints.push({ at, connections: load.connections, rss, files, threads, active });
    const held = `${files.sockets} sockets, ${files.pipes} pipe ends, ${files.others} other files`;
    progress(`checkpoint at ${Math.round(at)} s, no load: ${rss.toFixed(1)} MiB, ${held}, ${threads} threads`);
    this.#write("running", load);
  }

  /** Sends SIGTERM in the middle of transfers. The proxy must finish each of them and end by itself. */
  async #drain(proxy: ProxyProcess, load: Load): Promise<void> {
    if (this.#isOver()) return;
    const [route] = this.#routes;
    const random = randomFrom(this.#options.seed);
    for (let count = 0; count < 40; count += 1) load.begin(slowPlan(random, 3_000), route);
    await delay(1_500);
    const code = await proxy.stop();
    if (code !== 0) this.#fault(`SIGTERM: the proxy ended with ${code}:\n${proxy.logTail()}`);
    await delay(500);
    if (load.open > 0) this.#fault(`SIGTERM: ${load.open} connections are left though the proxy has ended`);
    progress(`drained: ended with ${code}`);
  }

  #minute(proxy: ProxyProcess, load: Load): void {
    if (proxy.child.exitCode !== null || proxy.child.signalCode !== null) return;
    const at = Math.round((performance.now() - this.#startedAt) / 1_000);
    const { rss } = memoryOf(proxy.pid);
    const { sockets, pipes, others } = openFilesOf(proxy.pid);
    const cpu = cpuOf(proxy.pid) / 1_000;
    const { connections, bytes, open } = load;
    this.#samples.push({ at, connections, bytes, open, rss, sockets, pipes, others, cpu });
    const moved = `${connections} connections, ${(bytes / 1e9).toFixed(2)} GB checked, ${open} open`;
    const held = `${rss.toFixed(1)} MiB, ${sockets} sockets, ${pipes} pipe ends, ${cpu.toFixed(1)} s of CPU`;
    progress(`${at} s: ${moved}; proxy ${held}; ${this.#faultCount} faults`);
    this.#write("running", load);
  }

  #conclude(load: Load): Outcome {
    for (const fault of flatnessFaults(this.#checkpoints)) this.#fault(fault);
    const outcome = this.#faultCount > 0 ? "failed" : this.#interrupted ? "interrupted" : "passed";
    this.#write(outcome, load);
    const growth = bytesPerConnection(this.#checkpoints);
    process.stdout.write(
      `soak ${outcome}: ${load.connections} connections, ${load.bytes} bytes checked, ${load.restarts} restarts of ` +
        "an upstream, " +
        `${Math.round(this.#loadedSeconds)} s of load, ${this.#faultCount} faults, ${growth.toFixed(1)} bytes of ` +
        "memory a connection\n",
    );
    if (outcome === "passed") rmSync(this.#folder, { recursive: true });
    return outcome;
  }

  #fault(text: string): void {
    this.#faultCount += 1;
    if (this.#faults.length >= MAX_FAULTS) return;
    const at = ((performance.now() - this.#startedAt) / 1_000).toFixed(1);
    this.#faults.push(`${at} s: ${text}`);
    progress(`FAULT at ${at} s: ${text}`);
  }

  #write(outcome: Outcome, load: Load): void {
    const { json, ...options } = this.#options;
    if (json === undefined) return;
    const { connections, bytes, restarts, voids, strangers, kinds } = load;
    const report = {
      bench: "soak",
      outcome,
      started: this.#started,
      options,
      loadedSeconds: Math.round(this.#loadedSeconds),
      connections,
      bytes,
      restarts,
      voids,
      strangers,
      kinds,
      faultCount: this.#faultCount,
      faults: this.#faults,
      bytesPerConnection: bytesPerConnection(this.#checkpoints),
      checkpoints: this.#checkpoints,
      metrics: this.#metrics,
      samples: this.#samples,
    };
    writeFileSync(json, `${JSON.stringify(report, undefined, 1)}\n`);
  }

  async #chooseRoutes(hasIpv6: boolean): Promise<Route[]> {
    const ports: number[] = [];
    const random = randomFrom(this.#options.seed);
    for (let tries = 0; ports.length < 10 && tries < 200; tries += 1) {
      const port = FIRST_PORT + Math.floor(random() * PORTS);
      if (!ports.includes(port) && (await isFree(port))) ports.push(port);
    }
    const next = (): number => ports.pop() ?? 0;
    this.#healthPort = next();
    const base = { declaredPort: 443, upstreamHost: "127.0.0.1" };
    const route = (name: string, rest: Partial<Route>): Route => ({
      ...base,
      name,
      protocol: "v1",
      weight: 1,
      listenPort: next(),
      upstreamPort: next(),
      ...rest,
    });
    return [
      route("plain", { weight: 45 }),
      route("second", { weight: 25, protocol: "v2", declaredPort: 8443, ...(hasIpv6 ? { upstreamHost: "::1" } : {}) }),
      route("restarting", { weight: 20, restarts: true }),
      route("refusing", { weight: 5, isRefused: true, upstreamPort: NOBODY_LISTENS }),
    ];
  }

  #config(hasIpv6: boolean): object {
    return {
      targets: this.#routes.map(({ name, protocol, listenPort, declaredPort, upstreamHost, upstreamPort }) => ({
        name,
        upstream: { host: upstreamHost },
        classes: [name],
        ports: [{ port: declaredPort, upstreamPort, protocol, listenPort }],
      })),
      proxy: {
        address: hasIpv6 ? "::" : "0.0.0.0",
        healthPort: this.#healthPort,
        drainSeconds: DRAIN_SECONDS,
        v2Checksum: true,
        v2UniqueId: true,
      },
      log: { level: "info" },
    };
  }
}

async function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, () => server.close(() => resolve(true)));
  });
}
