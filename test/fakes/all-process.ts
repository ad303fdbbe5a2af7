import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import { freePort, Upstream } from "#proxy/conformance/rig.ts";
import { takeHeader } from "#proxy/conformance/streams.ts";
import { bareEnvironment } from "../processes.ts";
import { OBJECTS, targetsObject } from "../published.ts";
import { filesFolder } from "./cli.ts";
import { killChild } from "./kill-child.ts";
import { collection, type FakeApi, fakeApi, watch } from "./kube-api.ts";
import { MemoryServer } from "./memory-server.ts";

const MAIN = fileURLToPath(new URL("../../cli/main.ts", import.meta.url));
const LOSE_WORKER = new URL("./lose-worker.ts", import.meta.url).href;
/** Maximum lifetime of the process, drains included. */
const LONGEST_MS = 120_000;
const ADDRESS = "127.0.0.1";

interface LogLine {
  readonly msg: string;
  readonly component?: string;
  readonly [field: string]: unknown;
}

type Port = "controller" | "webhookHealth" | "proxyHealth" | "webhook" | "relay";

/** `switchback all` as a separate process, with an API server in memory and a server that the relay leads to. */
export class AllProcess {
  readonly ports: Readonly<Record<Port, number>>;
  readonly api: FakeApi;
  readonly child: ChildProcess;
  readonly exited: Promise<unknown[]>;
  readonly lines: LogLine[] = [];
  readonly #upstream: Upstream;
  readonly #clients: Socket[] = [];
  readonly #waiting = new Set<() => void>();

  private constructor(
    ports: AllProcess["ports"],
    api: FakeApi,
    upstream: Upstream,
    args: string[],
    kubeconfig: string,
  ) {
    this.ports = ports;
    this.api = api;
    this.#upstream = upstream;
    const env = { ...bareEnvironment(), KUBECONFIG: kubeconfig, POD_NAME: "all-0" };
    this.child = spawn(process.execPath, ["--import", LOSE_WORKER, MAIN, "all", ...args], {
      stdio: ["ignore", "inherit", "pipe"],
      env,
    });
    this.exited = once(this.child, "close", { signal: AbortSignal.timeout(LONGEST_MS) });
    this.exited.then(() => this.#notify()).catch(() => {});
    if (this.child.stderr === null) throw new Error("no standard error");
    createInterface({ input: this.child.stderr }).on("line", (line) => {
      this.lines.push(line.startsWith("{") ? (JSON.parse(line) as LogLine) : { msg: line });
      this.#notify();
    });
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
    server.add("/api/v1/namespaces/ours/configmaps", OBJECTS.targets, {
      ...targetsObject([{ name: "web", upstream: ADDRESS, ports: published, clusterIPs: ["198.51.100.9"] }]),
      metadata: { uid: "u", resourceVersion: "1" },
    });
    const api = cleanup.adopt(await fakeApi(collection(server.respond, watch())), (each) => each.close());
    const life = { now: Date.now(), days: 1 };
    const pair = await issueLeaf(await issueAuthority(life), ["a.svc"], life);
    const all = [
      "namespace=ours",
      ...["controller", "webhook", "proxy"].map((name) => `${name}.address=${ADDRESS}`),
      `controller.port=${ports.controller}`,
      `webhook.port=${ports.webhook}`,
      `webhook.healthPort=${ports.webhookHealth}`,
      `proxy.healthPort=${ports.proxyHealth}`,
      "certs.mode=files",
      `certs.certFile=${await files.file("tls.crt", pair.cert)}`,
      `certs.keyFile=${await files.file("tls.key", pair.key)}`,
      ...settings,
    ];
    const args = all.flatMap((setting) => ["--set", setting]);
    const started = new AllProcess(ports, api, upstream, args, await files.kubeconfig(api.url));
    const owned = cleanup.move();
    started.#release = () => owned.disposeAsync();
    return started;
  }

  #release: () => Promise<void> = async () => {};

  #notify(): void {
    for (const check of this.#waiting) check();
  }

  /** Resolves once a line of the log matches. Rejects if the process ends before that. */
  async says(msg: string, component?: string): Promise<LogLine> {
    const { promise, resolve, reject } = Promise.withResolvers<LogLine>();
    const fits = (line: LogLine) => line.msg === msg && (component === undefined || line.component === component);
    const check = () => {
      const found = this.lines.find(fits);
      if (found !== undefined) resolve(found);
      else if (this.child.exitCode !== null) reject(new Error(`it ended: ${JSON.stringify(this.lines)}`));
    };
    this.#waiting.add(check);
    check();
    try {
      return await promise;
    } finally {
      this.#waiting.delete(check);
    }
  }

  /** Resolves once all three components listen. */
  async listens(): Promise<void> {
    await Promise.all(["controller", "webhook", "proxy"].map((part) => this.says("listening", part)));
  }

  /** Connects a client to the relay. Returns it with its upstream connection, which has read the header. */
  async relayed(): Promise<{ client: Socket; upstream: Socket }> {
    const client = connect({ port: this.ports.relay, host: ADDRESS, allowHalfOpen: true });
    client.on("error", () => {});
    this.#clients.push(client);
    client.write("question");
    const upstream = await this.#upstream.next();
    await takeHeader(upstream);
    return { client, upstream };
  }

  /** The status and text of a page of a component's health server. */
  async page(port: Port, path: string): Promise<{ status: number; text: string }> {
    const response = await fetch(`http://${ADDRESS}:${this.ports[port]}${path}`);
    return { status: response.status, text: await response.text() };
  }

  /** Sends the review of a new pod over a new connection. @returns whether the pod is allowed. */
  async admits(): Promise<boolean> {
    const review = {
      apiVersion: "admission.k8s.io/v1",
      kind: "AdmissionReview",
      request: {
        uid: "u",
        kind: { group: "", kind: "Pod" },
        operation: "CREATE",
        namespace: "shop",
        object: { metadata: {}, spec: { containers: [] } },
      },
    };
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const path = "/mutate/pod";
    const headers = { "content-type": "application/json" };
    const target = { host: ADDRESS, port: this.ports.webhook, path, headers, method: "POST", agent: false };
    const post = request({ ...target, rejectUnauthorized: false }, (response) => {
      let text = "";
      response.on("data", (chunk) => (text += chunk)).on("end", () => resolve(text));
    });
    post.on("error", reject).end(JSON.stringify(review));
    return (JSON.parse(await promise) as { response: { allowed: boolean } }).response.allowed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.#clients) client.destroy();
    await killChild(this.child);
    await this.#release();
  }
}
