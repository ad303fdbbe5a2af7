import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { text as textOf } from "node:stream/consumers";
import type { Command } from "@commander-js/extra-typings";
import { parseAllDocuments } from "yaml";
import { observe } from "#controller/observe.ts";
import type { NameStatus } from "#controller/status.ts";
import { show } from "#hostmap/hostnames.ts";
import { planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { listen } from "#lib/http/listen.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { CliContext } from "#lib/process/context.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { runProxy } from "#proxy/run.ts";
import type { Definition } from "./command.ts";
import { StoredCluster } from "./dump/stored-cluster.ts";
import * as ownFiles from "./own-files.ts";
import { type Row, table } from "./table.ts";

const LOOPBACK = "127.0.0.1";
/** How long the controller may take, and how long nothing may happen until then. The machine may be busy. */
const PATIENCE = { withinMs: 15_000, stuckMs: 500 };

/** Defines `switchback demo`. */
export function define(command: Command, { context }: Definition): void {
  command
    .option("--dashboard", "keep running until Ctrl-C, and show the names on a page of this machine")
    .action(({ dashboard = false }) => demo(dashboard, context));
}

/**
 * `switchback demo`: shows Switchback on one machine. The objects of the examples are mapped as in a cluster, and their
 * pods request the mapped names, directly and through the relay. With `dashboard` a page shows the names, until Ctrl-C.
 * Throws an error if a result is unexpected.
 */
export async function demo(dashboard: boolean, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const texts = ownFiles.ownFolder(ownFiles.EXAMPLES);
  const objects = texts.flatMap((text) => parseAllDocuments(text).map((each): ExampleObject => each.toJS()));
  // The ingress controller serves each mapped host, with the name of the object that claims it.
  const backends = new Map<string, string>();
  const logged: string[] = [];
  const ingressPort = await openPort(createServer((socket) => serve(socket, backends, logged)));
  // Without root, the relay binds ports above 1023. The target advertises 80 and 443, as a front Service would.
  const [port, securePort] = [await freePort(), await freePort()];
  const config = configOf(ingressPort, { 80: port, 443: securePort });
  const cluster = new StoredCluster();
  for (const object of objects) cluster.add(object);
  const client = cluster.client(true);
  const status = await observe(config, { client, clusterDomain: "cluster.local", identity: "demo", ...PATIENCE });
  const { names } = status;
  for (const { name, from } of names) backends.set(name, objectOf(from));
  const mapped = names.filter(({ reason }) => reason === undefined);
  /** The map that a leader would publish. */
  const map = publishedMapOf("demo", new Map(mapped.map(({ name, addresses }) => [name, addresses])));
  const proxy = await runProxy(config, { log: silentLogger, interfaceAddresses: [] });
  try {
    stdout.write(`The names of ${ownFiles.EXAMPLES}, as the controller maps them to the relay\n\n`);
    const nameRows = names.map(({ name, from, addresses }) => ({ cells: [name, objectOf(from), addresses.join(" ")] }));
    stdout.write(table(["NAME", "FROM", "LEADS TO"], nameRows));
    stdout.write("\nThe pods, as the webhook changes them\n\n");
    const pods = podsOf(objects, map);
    const podRows = pods.map(({ name, optIn, hostAliases }) => {
      const hosts = hostAliases.map(({ ip, hostnames }) => `${ip} ${hostnames.join(" ")}`).join(", ");
      return { cells: [name, optIn, hosts || "-"] };
    });
    stdout.write(table(["POD", "OPTED IN BY", "NAMES IN /etc/hosts"], podRows));
    stdout.write("\nTheir requests, to the ingress controller itself and through the relay\n\n");
    const answers = (await Promise.all(pods.map((pod) => requests(pod, map, ingressPort, port)))).flat();
    stdout.write(table(["POD", "NAME", "DIRECT", "THROUGH THE RELAY"], answers));
    stdout.line("");
    stdout.line(`The ingress controller logs: ${logged.at(-1)}`);
    stdout.line("Through the relay each name answers, because the relay adds the PROXY header.");
    const next = "Next: `npx switchback doctor` checks whether the pods of your cluster need this.";
    if (!dashboard) return stdout.line(next);
    const { showDemo } = await import("#extras/dashboard/server/demo-page.ts");
    const hide = await showDemo({
      status: () => ({ ...status, leader: true, revision: map.revision }),
      metrics: async () => [await (await fetch(`http://${LOOPBACK}:${proxy.healthPort}/metrics`)).text()],
      ownFiles,
      say: stdout.line,
    });
    stdout.line("Ctrl-C ends it.");
    await interrupted;
    await hide();
  } finally {
    await proxy.stop();
  }
}

interface ExampleObject extends ApiObject {
  /** Of a pod. */
  readonly spec?: { readonly hostAliases?: readonly HostAlias[] };
}

/** A header of version 1 and a request. The relay sends the header in one segment with the client's first bytes. */
const REQUEST = /^PROXY TCP[46] (\S+) \S+ (\d+) \d+\r\n(?:.*\r\n)*?host: ([^\r:]*)/i;

/**
 * Stands in for an ingress controller: requires a PROXY header, as nginx can, and answers each known host. It logs
 * errors as nginx would.
 */
function serve(socket: Socket, backends: ReadonlyMap<string, string>, logged: string[]): void {
  socket.on("error", () => socket.destroy());
  socket.once("data", (chunk: Buffer) => {
    const request = chunk.toString("latin1");
    const [, address, port, host = ""] = REQUEST.exec(request) ?? [];
    if (address === undefined) {
      logged.push(`broken header: ${show(request.split("\r\n", 1)[0] ?? "")} while reading PROXY protocol`);
      socket.destroy();
      return;
    }
    const backend = backends.get(host);
    const head = `HTTP/1.1 ${backend === undefined ? "404 Not Found" : "200 OK"}\r\nConnection: close\r\n\r\n`;
    socket.end(`${head}${backend ?? "no such host"}; client ${address}:${port}`);
  });
}

/** Listens on a free port of loopback, until the process ends or the server is closed. Returns the port. */
async function openPort(server: Server): Promise<number> {
  await listen(server, 0, LOOPBACK);
  server.unref();
  return (server.address() as AddressInfo).port;
}

/** A free port for the relay. If another process takes the port first, the demo fails with that error. */
async function freePort(): Promise<number> {
  const server = createServer();
  const port = await openPort(server);
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** All names have one target, the ingress controller. `listening`: the relay's ports, by the advertised ones. */
function configOf(ingressPort: number, listening: Readonly<Record<number, number>>): Config {
  const ports = Object.entries(listening).map(([port, listenPort]) => {
    return { port: Number(port), listenPort, upstreamPort: ingressPort, protocol: "v1" };
  });
  return parseConfig({
    targets: [{ name: "ingress-nginx", upstream: { host: LOOPBACK }, ports, clusterIPs: [LOOPBACK] }],
    discovery: { enabled: false },
    // No controller writes the status of objects in files.
    sources: { gateway: { requireAccepted: false } },
    policy: { verifyDns: "off" },
    // Somebody is watching: a shutdown should not take half a minute.
    proxy: { address: LOOPBACK, healthPort: 0, drainSeconds: 1 },
  });
}

/** A pod after the webhook. */
interface DemoPod {
  readonly name: string;
  /** What opted it in: `namespace`, `pod`, or `-`. */
  readonly optIn: string;
  readonly hostAliases: readonly HostAlias[];
}

/** The pods among the objects, as the webhook changes them. */
function podsOf(objects: readonly ExampleObject[], map: PublishedMap): DemoPod[] {
  const choose = createSelector(map, DEFAULT_MAX_NAMES);
  const labelOf = ({ metadata }: ApiObject) => metadata?.labels?.[INJECT_KEY];
  const enabled = objects.filter((object) => object.kind === "Namespace" && labelOf(object) === "enabled");
  const pods = objects.filter(({ kind }) => kind === "Pod");
  return pods.map((pod) => {
    const { metadata: { namespace, name, annotations = {} } = {}, spec: { hostAliases = [] } = {} } = pod;
    // The selectors of the MutatingWebhookConfiguration.
    const isInside = enabled.some(({ metadata }) => metadata?.name === namespace) && labelOf(pod) !== "disabled";
    const optIn = labelOf(pod) === "enabled" ? "pod" : isInside ? "namespace" : "-";
    const { userAliases, managed } = planInjection(hostAliases, annotations, choose(annotations[HOSTS_KEY]));
    const injected = [...userAliases, ...managed.aliases];
    return { name: `${namespace}/${name}`, optIn, hostAliases: optIn === "-" ? hostAliases : injected };
  });
}

function objectOf({ kind, namespace, name }: NameStatus["from"]): string {
  return `${kind} ${namespace}/${name}`;
}

/**
 * Sends two requests for each name of a pod: to the ingress controller, as kube-proxy would, and to the address in
 * /etc/hosts. Throws if one of the results is unexpected.
 */
async function requests({ name: pod, hostAliases }: DemoPod, map: PublishedMap, ingressPort: number, port: number) {
  const rows: Row[] = [];
  for (const { name } of map.hosts) {
    const alias = hostAliases.find(({ hostnames }) => hostnames.includes(name))?.ip;
    if (alias === undefined) continue;
    const direct = await call(name, LOOPBACK, ingressPort);
    const relayed = await call(name, alias, port);
    if (/^\d/.test(direct))
      throw new Error(`${name} answers without a PROXY header, which the ingress controller rejects`);
    if (!relayed.startsWith("200 ")) throw new Error(`${name} does not answer through the relay: ${relayed}`);
    rows.push({ cells: [pod, name, direct, relayed] });
  }
  return rows;
}

const TIMEOUT_MS = 3_000;

/**
 * Sends a pod's request for a public name to a port of this machine; a real pod would use port 80 of a real ClusterIP.
 * @returns the status and the body, or why there is no answer.
 */
async function call(name: string, address: string, port: number): Promise<string> {
  const socket = connect(port, address);
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no response within ${TIMEOUT_MS} ms`)));
  socket.write(`GET / HTTP/1.1\r\nHost: ${name}\r\nConnection: close\r\n\r\n`);
  const answer = await textOf(socket).catch((error: Error) => error.message);
  const [, status, body] = /^HTTP\/1\.1 (\d+) [\s\S]*?\r\n\r\n([\s\S]*)/.exec(answer) ?? [];
  return status === undefined ? answer || "closed without an answer" : `${status} ${body}`;
}
