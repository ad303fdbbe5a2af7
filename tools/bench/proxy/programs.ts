import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts } from "#test/cluster/ports.ts";
import type { Component, Processes } from "#test/cluster/processes.ts";
import { childrenOf } from "../process.ts";
import { chartFlags, MALLOC_ENV, ROOT } from "../serve.ts";

export const PROGRAMS = ["haproxy", "nginx", "portable", "linux"] as const;
export type ProgramName = (typeof PROGRAMS)[number];

/** Below the limit of 20,000 open files: a connection needs two, and HAProxy's pipes need some too. */
const MAX_CONNECTIONS = 6_000;
const NGINX_STREAM = "/usr/lib/nginx/modules/ngx_stream_module.so";
/** UID of `nobody` on Debian and most other systems. */
const UNPRIVILEGED_ID = "65534";
const START_MS = 30_000;

/** A running program that is measured. */
export interface Program {
  readonly name: ProgramName;
  readonly port: number;
  readonly process: Component;
  /** All its processes: nginx does its work in a child. */
  pids(): number[];
}

/** Where programs run. Any user may write to `folder`; `load` and `proxy` are cores in taskset's format. */
export interface Place {
  readonly folder: string;
  readonly processes: Processes;
  readonly cores: { readonly load: string; readonly proxy: string };
}

/** A sentence that names the missing programs and their Debian packages; undefined if none is missing. */
export function missing(): string | undefined {
  const isCommand = (name: string) => spawnSync("sh", ["-c", `command -v ${name}`]).status === 0;
  const packages = { wrk: "wrk", nginx: "nginx-light", haproxy: "haproxy", setpriv: "util-linux" };
  const absent = Object.entries(packages).flatMap(([name, of]) => (isCommand(name) ? [] : [of]));
  if (!existsSync(NGINX_STREAM)) absent.push("libnginx-mod-stream");
  return absent.length === 0 ? undefined : `not here; on Debian: apt-get install ${absent.join(" ")}`;
}

/** Starts a proxy on a free port, and waits until it answers. */
export async function startProgram(place: Place, name: ProgramName, upstreamPort: number): Promise<Program> {
  const [port = 0] = await freePorts(1);
  const folder = ownFolder(place, `${name}-${port}`);
  const process = start(place, `${name}-${port}`, COMMANDS[name](folder, { port, upstreamPort }), place.cores.proxy);
  const until = performance.now() + START_MS;
  for (;;) {
    const answer = await fetch(`http://127.0.0.1:${port}/small`).catch(() => undefined);
    await answer?.arrayBuffer();
    if (answer?.ok === true) return { name, port, process, pids: () => [process.pid, ...childrenOf(process.pid)] };
    if (process.exited !== undefined || performance.now() > until) {
      throw new Error(`${name} does not answer:\n${await process.logTail()}`);
    }
  }
}

/**
 * Starts the server behind the proxies, an nginx that accepts only connections with a PROXY header, like an ingress
 * controller behind a load balancer. It serves the files in `www`. Returns its port.
 */
export async function startBackend(place: Place): Promise<number> {
  const [port = 0] = await freePorts(1);
  const own = ownFolder(place, "backend");
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${own}/${name};`);
  const http = `http {
  ${paths.join("\n  ")}
  access_log off;
  default_type application/octet-stream;
  sendfile on;
  tcp_nodelay on;
  etag off;
  open_file_cache max=16;
  keepalive_requests 1000000000;
  keepalive_timeout 300s;
  client_header_timeout 300s;
  server {
    listen 127.0.0.1:${port} proxy_protocol backlog=4096;
    root ${join(place.folder, "www")};
  }
}`;
  start(place, "backend", nginx(own, http), place.cores.load);
  return port;
}

/**
 * Runs a program as an ordinary user without capabilities, like in a pod. root's rights would hide limits, such as the
 * limit of pipe pages (pipe(7), pipe-user-pages-soft). Without root, it runs as the current user.
 */
function start({ processes }: Place, name: string, command: readonly string[], cores: string): Component {
  const drop = ["setpriv", `--reuid=${UNPRIVILEGED_ID}`, `--regid=${UNPRIVILEGED_ID}`, "--clear-groups"];
  const caps = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all", "--no-new-privs"];
  const user = process.getuid?.() === 0 ? [...drop, ...caps] : [];
  return processes.start(name, "taskset", ["-c", cores, ...user, ...command], MALLOC_ENV);
}

function ownFolder({ folder }: Place, name: string): string {
  const own = join(folder, name);
  mkdirSync(own);
  chmodSync(own, 0o777);
  return own;
}

interface Ports {
  readonly port: number;
  readonly upstreamPort: number;
}

/** Each writes a configuration to the folder and returns the command. */
const COMMANDS: Readonly<Record<ProgramName, (folder: string, ports: Ports) => string[]>> = {
  haproxy,
  nginx: (folder, { port, upstreamPort }) => {
    const lines = [
      "proxy_protocol on;",
      `proxy_pass 127.0.0.1:${upstreamPort};`,
      `listen 127.0.0.1:${port} backlog=4096;`,
    ];
    return nginx(folder, `stream { server { ${lines.join(" ")} } }`, `load_module ${NGINX_STREAM};\n`);
  },
  portable: (folder, ports) => switchback(folder, ports, "portable"),
  linux: (folder, ports) => switchback(folder, ports, "linux"),
};

function nginx(folder: string, servers: string, modules = ""): string[] {
  const head = ["daemon off;", "worker_processes 1;", "worker_rlimit_nofile 20000;", `pid ${folder}/pid;`];
  const events = `events { worker_connections ${2 * MAX_CONNECTIONS}; }`;
  const file = write(folder, `${modules}${head.join("\n")}\n${events}\n${servers}\n`);
  return ["nginx", "-e", join(folder, "error.log"), "-c", file];
}

function haproxy(folder: string, { port, upstreamPort }: Ports): string[] {
  const lines = [
    "global",
    ...["nbthread 1", `maxconn ${MAX_CONNECTIONS}`],
    "defaults",
    ...["mode tcp", "timeout connect 5s", "timeout client 300s", "timeout server 300s", "option splice-auto"],
    "listen bench",
    ...[`bind 127.0.0.1:${port}`, `server upstream 127.0.0.1:${upstreamPort} send-proxy`],
  ];
  return ["haproxy", "-db", "-f", write(folder, `${lines.join("\n")}\n`)];
}

function switchback(folder: string, { port, upstreamPort }: Ports, engine: string): string[] {
  const ports = [{ port: 443, upstreamPort, listenPort: port, protocol: "v1" }];
  const limits = { maxConnections: MAX_CONNECTIONS, maxConnectionsPerSource: MAX_CONNECTIONS };
  const proxy = { address: "127.0.0.1", healthPort: 0, engine, workers: 1, ...limits };
  const file = write(
    folder,
    JSON.stringify({ targets: [{ name: "bench", upstream: { host: "127.0.0.1" }, ports }], proxy }),
  );
  return [process.execPath, ...chartFlags("proxy"), join(ROOT, "cli", "main.ts"), "proxy", "--config", file];
}

function write(folder: string, text: string): string {
  const file = join(folder, "config");
  writeFileSync(file, text);
  return file;
}
