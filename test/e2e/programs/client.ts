import { lookup, Resolver, resolve as resolveType } from "node:dns/promises";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import * as http from "node:http";
import * as https from "node:https";
import { connect } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";

// The program of the tests' pods. It runs on the Node of Switchback's own image, so that the tests can run on any
// cluster that can pull this image. The pods have no other file of the tests, so this file imports none.
// sleep: waits until it is stopped, so that `kubectl exec` has a pod to run in.
// serve: answers each request at port 8080. hosts: prints the pod's hosts file.
// get URL [FAMILY]: one GET on a new connection, over IPv4 or IPv6 (4, 6), without checking certificates. Prints the
//   answer as JSON.
// load SECONDS URL...: sends GETs until `stop`, or for this time. It requests each URL again and again, each time on a
//   new connection. It also requests the first URL on connections that it keeps for a while. Prints the counts as JSON.
// pace SECONDS MS URL...: sends a GET of each URL every MS on a new connection, without waiting for earlier answers,
//   until `stop` or for this time. For each URL, it prints as JSON how many it sent, and the times (ms since 1970) of
//   those without an answer within 3 s.
// stop: ends `load` and `pace` in this pod.
// resolve NAME...: prints the first IPv4 address of each name, one line per name. resolve-all NAME...: prints all
//   addresses, IPv4 first.
// repeat SECONDS MS NAME...: looks the names up in turn, at most one every MS. Prints the number of lookups, the number
//   of failures, and the slowest lookup in ms. records TYPE,... NAME: prints the answer or the error for each type, as
//   JSON.
// reach SOURCE ADDRESS...: prints which addresses answer, as JSON. `tcp:IP:PORT` answers by accepting a connection,
//   `dns:IP` by a datagram. SOURCE is the local address of the connection; with `any`, the machine chooses.

const STOP = "/tmp/stop";
const PAUSE_MS = 20;
const TIMEOUT_MS = 20_000;
const PACED_TIMEOUT_MS = 3_000;
/** Timeout. A dropped packet gets no answer. A lost packet is sent again after a second. */
const REACH_MS = 2_500;
/** Less than the time that a stopping proxy gives its connections. */
const KEPT_MS = 15_000;

const [command = "", ...args] = process.argv.slice(1);
const commands: Record<string, () => Promise<void> | void> = {
  sleep,
  serve: () => void http.createServer((_, response) => response.end("served")).listen(8080),
  hosts: () => console.log(readFileSync("/etc/hosts", "latin1")),
  get: () => get(args[0] ?? "", Number(args[1] ?? 0)),
  load: () => load(Number(args[0]), args.slice(1)),
  pace: () => pace(Number(args[0]), Number(args[1]), args.slice(2)),
  stop: () => writeFileSync(STOP, ""),
  resolve: () => resolve(args, 4),
  "resolve-all": () => resolve(args, 0),
  repeat: () => repeat(Number(args[0]), Number(args[1]), args.slice(2)),
  records: () => records((args[0] ?? "").split(","), args[1] ?? ""),
  reach: () => reach(args[0] ?? "", args.slice(1)),
};
await commands[command]?.();

function sleep(): void {
  process.once("SIGTERM", () => process.exit());
  setInterval(() => {}, 60_000);
}

interface Received {
  readonly status: number;
  readonly body: string;
  readonly isReused: boolean;
}

/** Sends a GET and reads the whole body. Rejects if the connection ends earlier. */
function ask(url: string, agent: http.Agent | false = false, family = 0, timeout = TIMEOUT_MS): Promise<Received> {
  return new Promise((done, failed) => {
    const client = url.startsWith("https:") ? https : http;
    const options = { agent, family, rejectUnauthorized: false, timeout };
    const request = client.get(url, options, (response) => {
      const received = (body: string) =>
        done({ status: response.statusCode ?? 0, body, isReused: request.reusedSocket });
      text(response).then(received, failed);
    });
    request.on("error", failed);
    request.on("timeout", () => request.destroy(new Error("timeout")));
  });
}

async function get(url: string, family: number): Promise<void> {
  try {
    const { status, body } = await ask(url, false, family);
    console.log(JSON.stringify({ status, body }));
  } catch (error) {
    console.log(JSON.stringify({ error: describe(error) }));
    process.exitCode = 1;
  }
}

async function load(seconds: number, urls: string[]): Promise<void> {
  // The file may be left from an earlier load in this pod.
  rmSync(STOP, { force: true });
  const started = performance.now();
  const result = { answered: 0, reused: 0, errors: [] as string[], stopped: false };
  const isOver = () => existsSync(STOP) || performance.now() - started > seconds * 1000;
  const count = async (url: string, agent?: http.Agent) => {
    try {
      const { status, isReused } = await ask(url, agent);
      if (status !== 200) throw new Error(`status ${status}`);
      result.answered++;
      if (isReused) result.reused++;
    } catch (error) {
      result.errors.push(`${new Date().toISOString()} ${url}${agent ? " (kept connection)" : ""}: ${describe(error)}`);
    }
    await delay(PAUSE_MS);
  };
  const each = async (url: string) => {
    while (!isOver()) await count(url);
  };
  const kept = async (url: string) => {
    while (!isOver()) {
      const { Agent } = url.startsWith("https:") ? https : http;
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const since = performance.now();
      while (performance.now() - since < KEPT_MS && !isOver()) await count(url, agent);
      agent.destroy();
    }
  };
  await Promise.all([...urls.map(each), kept(urls[0] ?? "")]);
  result.stopped = existsSync(STOP);
  console.log(JSON.stringify(result));
}

async function pace(seconds: number, periodMs: number, urls: string[]): Promise<void> {
  rmSync(STOP, { force: true });
  const results = urls.map((url) => ({ url, asked: 0, failed: [] as number[], errors: {} as Record<string, number> }));
  const asked: Promise<void>[] = [];
  const one = async (result: (typeof results)[number]) => {
    const sent = Date.now();
    result.asked++;
    try {
      const { status } = await ask(result.url, false, 0, PACED_TIMEOUT_MS);
      if (status !== 200) throw new Error(`status ${status}`);
    } catch (error) {
      const text = describe(error);
      result.failed.push(sent);
      result.errors[text] = (result.errors[text] ?? 0) + 1;
    }
  };
  const started = performance.now();
  while (!existsSync(STOP) && performance.now() - started < seconds * 1000) {
    for (const result of results) asked.push(one(result));
    await delay(periodMs);
  }
  await Promise.all(asked);
  console.log(JSON.stringify(results));
}

async function resolve(names: string[], family: 0 | 4): Promise<void> {
  for (const name of names) {
    try {
      const found = await lookup(name, { family, all: true, order: "ipv4first" });
      console.log(name, ...found.map(({ address }) => address).slice(0, family === 4 ? 1 : found.length));
    } catch (error) {
      console.log(name, describe(error));
      process.exitCode = 1;
    }
  }
}

async function repeat(seconds: number, periodMs: number, names: string[]): Promise<void> {
  const counts = { lookups: 0, failed: 0, slowestMs: 0 };
  const started = performance.now();
  while (performance.now() - started < seconds * 1000) {
    const asked = performance.now();
    try {
      await lookup(names[counts.lookups % names.length] ?? "", { family: 4 });
    } catch {
      counts.failed++;
    }
    counts.lookups++;
    const took = performance.now() - asked;
    counts.slowestMs = Math.max(counts.slowestMs, Math.round(took * 10) / 10);
    await delay(Math.max(0, periodMs - took));
  }
  console.log(JSON.stringify(counts));
}

async function records(types: string[], name: string): Promise<void> {
  const answers = types.map(async (type) => [type, await resolveType(name, type).catch(describe)]);
  console.log(JSON.stringify(Object.fromEntries(await Promise.all(answers))));
}

async function reach(source: string, addresses: string[]): Promise<void> {
  const answered = await Promise.all(
    addresses.map(async (address) => {
      const [kind, host = "", port] = address.split(":");
      return kind === "dns" ? await asks(host) : await accepts(host, Number(port), source);
    }),
  );
  console.log(JSON.stringify(addresses.filter((_, n) => answered[n])));
}

function accepts(host: string, port: number, source: string): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect({ host, port, timeout: REACH_MS, ...(source !== "any" && { localAddress: source }) });
    const end = (isOpen: boolean) => {
      socket.destroy();
      done(isOpen);
    };
    socket.on("connect", () => end(true));
    socket.on("timeout", () => end(false));
    socket.on("error", () => end(false));
  });
}

async function asks(host: string): Promise<boolean> {
  const resolver = new Resolver({ timeout: REACH_MS, tries: 1 });
  resolver.setServers([host]);
  return await resolver.resolve4("kubernetes.default.svc.cluster.local").then(
    () => true,
    () => false,
  );
}

function describe(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return [code, message].filter(Boolean).join(": ");
}
