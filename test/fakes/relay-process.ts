import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import { freePort, Upstream } from "#proxy/conformance/rig.ts";
import { takeHeader } from "#proxy/conformance/streams.ts";
import { bareEnvironment, killChild } from "../processes.ts";
import { OBJECTS, targetsObject } from "../published.ts";
import { filesFolder, MAIN } from "./cli.ts";
import { collection, type FakeApi, fakeApi, until, watch } from "./kube-api.ts";
import { MemoryServer } from "./memory-server.ts";

const LOSE_WORKER = new URL("./lose-worker.ts", import.meta.url).href;
/** Maximum lifetime of a process, drains included. */
export const LONGEST_MS = 120_000;
const ADDRESS = "127.0.0.1";

interface LogLine {
  readonly msg: string;
  readonly component?: string;
  readonly [field: string]: unknown;
}

/** A component with a relay as a separate process, in front of an upstream that the test controls. */
export class RelayProcess {
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly lines: LogLine[] = [];
  readonly #upstream: Upstream;
  readonly #relayPort: number;
  readonly #clients: Socket[] = [];
  /** What ends with the process: files, servers and the upstream. */
  readonly #owned: AsyncDisposableStack;

  constructor(
    args: readonly string[],
    env: Readonly<Record<string, string>>,
    relay: { readonly upstream: Upstream; readonly port: number },
    owned: AsyncDisposableStack,
  ) {
    this.#upstream = relay.upstream;
    this.#relayPort = relay.port;
    this.#owned = owned;
    this.child = spawn(process.execPath, ["--import", LOSE_WORKER, MAIN, ...args], {
      stdio: ["ignore", "inherit", "pipe"],
      env: { ...bareEnvironment(), ...env },
    });
    this.exited = once(this.child, "close", { signal: AbortSignal.timeout(LONGEST_MS) });
    this.exited.catch(() => {});
    assert.ok(this.child.stderr);
    createInterface({ input: this.child.stderr }).on("line", (line) => {
      this.lines.push(line.startsWith("{") ? (JSON.parse(line) as LogLine) : { msg: line });
    });
  }

  /** The first line of the log that matches, now or later. Rejects if the process ends before that. */
  async says(msg: string, component?: string): Promise<LogLine> {
    const found = () =>
      this.lines.find((line) => line.msg === msg && (component === undefined || line.component === component));
    let ended = false;
    this.exited.finally(() => (ended = true)).catch(() => {});
    await until(() => found() !== undefined || ended, msg, LONGEST_MS);
    return found() ?? assert.fail(`it ended: ${JSON.stringify(this.lines)}`);
  }

  /** Connects a client that sends `first`. Returns it and its upstream connection, which has read the header. */
  async relayed(first = "question"): Promise<{ client: Socket; upstream: Socket }> {
    const client = connect({ port: this.#relayPort, host: ADDRESS, allowHalfOpen: true, noDelay: true });
    client.on("error", () => {});
    this.#clients.push(client);
    if (first.length > 0) client.write(first);
    const upstream = await this.#upstream.next();
    assert.equal((await takeHeader(upstream)).version, 2);
    return { client, upstream };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.destroy();
    await killChild(this.child);
    await this.#owned.disposeAsync();
  }
}

type Port = "controller" | "webhookHealth" | "proxyHealth" | "webhook" | "relay";

/** `switchback all`, with an API server in memory and a server that the relay leads to. */
export class AllProcess extends RelayProcess {
  readonly ports: Readonly<Record<Port, number>>;
  readonly api: FakeApi;

  private constructor(ports: AllProcess["ports"], api: FakeApi, ...rest: ConstructorParameters<typeof RelayProcess>) {
    super(...rest);
    this.ports = ports;
    this.api = api;
  }

  /** Starts the process, but does not wait until it has started. `settings`: as for `--set`. */
  static async start(
    settings: readonly string[] = [],
    taken?: Pick<AllProcess["ports"], "webhook">,
  ): Promise<AllProcess> {
    await using cleanup = new AsyncDisposableStack();
    const files = cleanup.adopt(filesFolder(), (folder) => folder.remove());
    const upstream = cleanup.use(await Upstream.listen());
    const ports = {
      controller: await freePort(),
      webhookHealth: await freePort(),
      proxyHealth: await freePort(),
      webhook: await freePort(),
      relay: await freePort(),
      ...taken,
    };
    const server = new MemoryServer();
    const published = [{ port: 443, listenPort: ports.relay, upstreamPort: upstream.port, protocol: "v2" as const }];
    const target = { name: "web", upstream: ADDRESS, ports: published, clusterIPs: ["198.51.100.9"] };
    server.add("/api/v1/namespaces/ours/configmaps", OBJECTS.targets, {
      ...targetsObject([target]),
      metadata: { uid: "u", resourceVersion: "1" },
    });
    const api = cleanup.adopt(await fakeApi(collection(server.respond, watch())), (each) => each.close());
    const life = { now: Date.now(), days: 1 };
    const pair = await issueLeaf(await issueAuthority(life), ["a.svc"], life);
    const all = [
      "namespace=ours",
      ...[`address=${ADDRESS}`, `proxy.address=${ADDRESS}`],
      `controller.port=${ports.controller}`,
      `webhook.port=${ports.webhook}`,
      `webhook.healthPort=${ports.webhookHealth}`,
      `proxy.healthPort=${ports.proxyHealth}`,
      "certs.mode=files",
      `certs.certFile=${await files.file("tls.crt", pair.cert)}`,
      `certs.keyFile=${await files.file("tls.key", pair.key)}`,
      ...settings,
    ];
    const args = ["all", ...all.flatMap((setting) => ["--set", setting])];
    const env = { KUBECONFIG: await files.kubeconfig(api.url), POD_NAME: "all-0" };
    return new AllProcess(ports, api, args, env, { upstream, port: ports.relay }, cleanup.move());
  }

  /** Resolves once all three components listen. */
  async listens(): Promise<void> {
    await Promise.all(["controller", "webhook", "proxy"].map((part) => this.says("listening", part)));
  }

  /** The status and text of a page of a component's health server. */
  async page(port: Port, path: string): Promise<{ status: number; text: string }> {
    const response = await fetch(`http://${ADDRESS}:${this.ports[port]}${path}`);
    return { status: response.status, text: await response.text() };
  }

  /** Sends the review of a new pod over a new connection. @returns whether the pod is allowed. */
  async admits(): Promise<boolean> {
    const kind = { group: "", kind: "Pod" };
    const object = { metadata: {}, spec: { containers: [] } };
    const review = { uid: "u", kind, operation: "CREATE", namespace: "shop", object };
    const headers = { "content-type": "application/json" };
    const target = { host: ADDRESS, port: this.ports.webhook, path: "/mutate/pod", headers, method: "POST" };
    const sent = request({ ...target, agent: false, rejectUnauthorized: false });
    sent.end(JSON.stringify({ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", request: review }));
    const [response] = await once(sent, "response");
    return (JSON.parse(await text(response)) as { response: { allowed: boolean } }).response.allowed;
  }
}
