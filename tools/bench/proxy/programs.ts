import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { startProcess, switchbackCommand } from "./process.ts";

export const PROGRAMS = ["haproxy", "haproxy-splice", "nginx", "relay", "portable", "beside", "linux"] as const;
export type ProgramName = (typeof PROGRAMS)[number];

/** Proxies that people would otherwise choose. Ours is compared with the best of them. */
export const PEERS: readonly ProgramName[] = ["haproxy", "haproxy-splice", "nginx"];

/** Below the limit of 20,000 open files: a connection needs two, and HAProxy's pipes need some too. */
const MAX_CONNECTIONS = 6_000;
const NGINX_STREAM = "/usr/lib/nginx/modules/ngx_stream_module.so";

/** A running program that is measured. */
export interface Program {
  readonly name: ProgramName;
  readonly port: number;
  /** PIDs of all its processes: nginx does its work in a child. */
  pids(): readonly number[];
  readonly ended: Promise<never>;
  stop(): Promise<unknown>;
}

interface Place {
  /** Any user may write to this folder. */
  readonly folder: string;
  readonly port: number;
  readonly upstreamPort: number;
  readonly cpu: number | undefined;
  readonly workers: number;
  /** The other checkout, whose proxy is the program `beside`. */
  readonly beside: string | undefined;
}

/** A sentence that names the missing programs and their packages; undefined if none is missing. */
export function missing(programs: readonly ProgramName[]): string | undefined {
  const wanted: [string, string, boolean][] = [
    ["wrk", "wrk", isCommand("wrk")],
    ["nginx", "nginx-light", isCommand("nginx")],
    ["taskset", "util-linux", isCommand("taskset")],
    ["setpriv", "util-linux", isCommand("setpriv")],
  ];
  if (programs.some((name) => name.startsWith("haproxy"))) wanted.push(["haproxy", "haproxy", isCommand("haproxy")]);
  if (programs.includes("nginx")) wanted.push([NGINX_STREAM, "libnginx-mod-stream", existsSync(NGINX_STREAM)]);
  if (programs.includes("relay")) wanted.push(["gcc", "gcc libc6-dev", isCommand("gcc")]);
  const absent = wanted.filter(([, , isThere]) => !isThere);
  if (absent.length === 0) return undefined;
  const packages = [...new Set(absent.map(([, name]) => name))];
  return `not here: ${absent.map(([what]) => what).join(", ")}; on Debian: apt-get install ${packages.join(" ")}`;
}

function isCommand(name: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
}

/** Compiles the C relay. */
export function buildRelay(folder: string): void {
  const source = join(import.meta.dirname, "relay.c");
  execFileSync("gcc", ["-O2", "-Wall", "-o", join(folder, "relay"), source], {
    stdio: ["ignore", "ignore", "inherit"],
  });
}

export function startProgram(name: ProgramName, place: Place): Program {
  const folder = join(place.folder, `${name}-${place.port}`);
  mkdirSync(folder, { mode: 0o777, recursive: true });
  execFileSync("chmod", ["777", folder]);
  const process = startProcess(COMMANDS[name]({ ...place, folder }, place.folder), join(folder, "log"), place.cpu);
  return {
    name,
    port: place.port,
    pids: () => [process.pid, ...childrenOf(process.pid)],
    ended: process.ended,
    stop: process.stop,
  };
}

function childrenOf(pid: number): number[] {
  return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").trim().split(" ").filter(Boolean).map(Number),
  );
}

/** `place.folder` is the program's own folder; `shared` is the folder with the compiled relay. */
type Command = (place: Place, shared: string) => string[];

const COMMANDS: Readonly<Record<ProgramName, Command>> = {
  haproxy: (place) => haproxy(place, ["option splice-auto"], []),
  "haproxy-splice": (place) =>
    haproxy(place, ["option splice-request", "option splice-response"], ["tune.pipesize 1048576"]),
  nginx: (place) => {
    const file = write(
      place,
      "nginx.conf",
      `load_module ${NGINX_STREAM};
daemon off;
worker_processes ${place.workers};
worker_rlimit_nofile 20000;
pid ${place.folder}/pid;
events { worker_connections ${2 * MAX_CONNECTIONS}; }
stream {
  server {
    listen 127.0.0.1:${place.port} backlog=4096;
    proxy_pass 127.0.0.1:${place.upstreamPort};
    proxy_protocol on;
  }
}
`,
    );
    return ["nginx", "-e", join(place.folder, "error.log"), "-c", file];
  },
  relay: (place, shared) => [join(shared, "relay"), `${place.port}`, `${place.upstreamPort}`],
  portable: (place) => switchback("portable", place),
  beside: (place) => switchback("linux", place, place.beside),
  linux: (place) => switchback("linux", place),
};

function haproxy(place: Place, options: readonly string[], tuning: readonly string[]): string[] {
  const lines = [
    "global",
    ...[`nbthread ${place.workers}`, `maxconn ${MAX_CONNECTIONS}`, ...tuning],
    "defaults",
    ...["mode tcp", "timeout connect 5s", "timeout client 300s", "timeout server 300s", ...options],
    "listen bench",
    ...[`bind 127.0.0.1:${place.port}`, `server upstream 127.0.0.1:${place.upstreamPort} send-proxy`],
  ];
  return ["haproxy", "-db", "-f", write(place, "haproxy.cfg", `${lines.join("\n")}\n`)];
}

function switchback(engine: "portable" | "linux", place: Place, tree?: string): string[] {
  const target = {
    name: "bench",
    upstream: { host: "127.0.0.1" },
    ports: [{ port: 443, upstreamPort: place.upstreamPort, listenPort: place.port, protocol: "v1" }],
  };
  const limits = { maxConnections: MAX_CONNECTIONS, maxConnectionsPerSource: MAX_CONNECTIONS };
  const config = { targets: [target], proxy: { address: "127.0.0.1", healthPort: 0, ...limits } };
  return switchbackCommand(engine, place.workers, write(place, "config.yaml", stringify(config)), tree);
}

function write(place: Place, name: string, text: string): string {
  const file = join(place.folder, name);
  writeFileSync(file, text);
  return file;
}
