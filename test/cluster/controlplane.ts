import { cp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Api, type ApiAnswer, type ApiRequest } from "./api.ts";
import { binary } from "./binaries.ts";
import { Egress, type LocalPorts } from "./egress.ts";
import { type Identity, kubeconfigText } from "./kubeconfig.ts";
import { createPodOn, playKubelet } from "./kubelet.ts";
import { apiServerArgs, controllerManagerArgs, createLayout, etcdArgs, type Layout } from "./layout.ts";
import type { TestCa } from "./pki.ts";
import { type Component, Processes, until } from "./processes.ts";
import { runTool, type ToolOptions, type ToolResult } from "./tools.ts";

const READY_SECONDS = 90;
const START_TRIES = 3;

export interface ControlPlaneOptions {
  /**
   * Also run kube-controller-manager, for default ServiceAccounts, owners, endpoints and the deletion of namespaces.
   * Default: true.
   */
  controllerManager?: boolean;
  /** Added to the API server's own flags. If a flag occurs twice, the last one wins. */
  apiServerArgs?: string[];
}

/**
 * Starts etcd, kube-apiserver and kube-controller-manager on 127.0.0.1, without root, and waits until they are ready.
 * @throws NotHere if a binary is missing and cannot be built. A failed start keeps its logs, and the error says
 * where they are.
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  for (let tries = 1; ; tries++) {
    const controlPlane = new ControlPlane(await createLayout(), options);
    try {
      await controlPlane.start();
      return controlPlane;
    } catch (error) {
      // The port was free a moment ago, but another program may have taken it since.
      const again = String(error).includes("address already in use") && tries < START_TRIES;
      await controlPlane.stop({ keepLogs: !again });
      if (!again) throw error;
    }
  }
}

/** A real control plane that belongs to one test file. */
export class ControlPlane {
  /** Such as `https://127.0.0.1:41234`. */
  readonly url: string;
  /** Signs the API server's certificate, and client certificates that it accepts. */
  readonly ca: TestCa;
  readonly caFile: string;
  /** A bearer token of group `system:masters`. */
  readonly adminToken: string;
  /** Path of a kubeconfig with `adminToken`. */
  readonly adminKubeconfig: string;
  /** All files of this control plane. `logs/` in it has one file for each component. `stop` removes the folder. */
  readonly folder: string;

  readonly #layout: Layout;
  readonly #options: ControlPlaneOptions;
  readonly #processes: Processes;
  readonly #egress: Egress;
  readonly #api: Api;
  readonly #components = new Map<string, Component>();
  #kubeconfigs = 0;

  constructor(layout: Layout, options: ControlPlaneOptions) {
    this.url = layout.url;
    this.ca = layout.ca;
    this.caFile = layout.file("ca.crt");
    this.adminToken = layout.adminToken;
    this.adminKubeconfig = layout.file("admin.kubeconfig");
    this.folder = layout.folder;
    this.#layout = layout;
    this.#options = options;
    this.#processes = new Processes(layout.folder, layout.logs);
    this.#api = new Api(layout.url, layout.ca.cert);
    this.#egress = new Egress((ip) => this.#serviceByIp(ip));
  }

  /** Called by `startControlPlane`. */
  async start(): Promise<void> {
    await this.#egress.listen(this.#layout.egressSocket);
    await this.#run("etcd", etcdArgs(this.#layout));
    await this.startApiServer();
    if (this.#options.controllerManager === false) return;
    await this.#run("kube-controller-manager", controllerManagerArgs(this.#layout));
    // Pods cannot be created before kube-controller-manager has made this ServiceAccount.
    await this.#until("kube-controller-manager", "/api/v1/namespaces/default/serviceaccounts/default");
  }

  /** One API call as the admin, or with `token`. Any HTTP status is a result, not an error. */
  async call(request: Omit<ApiRequest, "token"> & { token?: string }): Promise<ApiAnswer> {
    return await this.#api.call({ token: this.adminToken, ...request });
  }

  /**
   * A bearer token of a ServiceAccount (`<namespace>/<name>`) from the TokenRequest API, valid for an hour. With
   * `node`, it is the token of a pod on this node, as the kubelet requests it. The pod is created for it, and so is
   * the node if it is missing.
   */
  async tokenFor(serviceAccount: string, node?: string): Promise<string> {
    const [namespace = "", name = ""] = serviceAccount.split("/");
    const boundObjectRef =
      node === undefined ? undefined : await createPodOn((it) => this.call(it), node, namespace, name);
    const spec = { expirationSeconds: 3600, boundObjectRef };
    const { status, body } = await this.call({
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
      body: { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec },
    });
    if (status !== 201) throw new Error(`no token for ${serviceAccount}: ${status} ${JSON.stringify(body)}`);
    return (body as { status: { token: string } }).status.token;
  }

  /**
   * The path of a new kubeconfig for a token, or for a client certificate (`ca.client(user, groups)`). `url`: another
   * address through which to reach the API server, also on 127.0.0.1.
   */
  async kubeconfigFor(identity: Identity, url = this.url): Promise<string> {
    this.#kubeconfigs++;
    const path = join(this.folder, `${this.#kubeconfigs}.kubeconfig`);
    await writeFile(path, kubeconfigText(url, this.ca.cert, identity), { mode: 0o600 });
    return path;
  }

  async kubectl(...args: string[]): Promise<ToolResult> {
    return await this.tool("kubectl", args);
  }

  async helm(...args: string[]): Promise<ToolResult> {
    return await this.tool("helm", args);
  }

  /**
   * Runs kubectl or helm, optionally with standard input or another identity. The chart's check after an install is
   * off, because no node would run it and Helm would wait for it. `--set installCheck.enabled=true` turns it on.
   */
  async tool(name: "kubectl" | "helm", args: string[], options: ToolOptions = {}): Promise<ToolResult> {
    const installs = name === "helm" && /^(?:install|upgrade)$/.test(args[0] ?? "");
    const words = installs ? [args[0] ?? "", "--set", "installCheck.enabled=false", ...args.slice(1)] : args;
    const home = this.#layout.file("home");
    const env = {
      HOME: home,
      KUBECACHEDIR: join(home, "kube"),
      KUBECONFIG: options.kubeconfig ?? this.adminKubeconfig,
    };
    return await runTool(await binary(name), words, env, options.input);
  }

  /** The API server's own metrics, in the Prometheus text format. */
  async metrics(): Promise<string> {
    const { status, body } = await this.call({ path: "/metrics" });
    if (status !== 200) throw new Error(`/metrics answered ${status}`);
    return String(body);
  }

  /**
   * Routes the API server's connections to a Service (`<namespace>/<name>`, by its port) to ports of 127.0.0.1, in
   * turn. Such connections are webhook calls by `clientConfig.service`, and `services/<name>/proxy`. Without ports,
   * connections are refused.
   */
  routeService(service: string, port: number, localPorts: LocalPorts): void {
    this.#egress.routeService(`${service}:${port}`, localPorts);
  }

  /** Does the same for an address that the API server dials directly, such as a pod's address in an EndpointSlice. */
  routeAddress(ip: string, port: number, localPorts: LocalPorts): void {
    this.#egress.routeAddress(`${ip.includes(":") ? `[${ip}]` : ip}:${port}`, localPorts);
  }

  /**
   * Variables of a program that reads pages of pods over HTTP. With them, the addresses of `runPod` and `routeAddress`
   * lead to local ports.
   */
  get podNetwork(): Record<string, string> {
    const proxy = `http://127.0.0.1:${this.#egress.port}`;
    return { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: proxy, NO_PROXY: "127.0.0.1,localhost" };
  }

  /**
   * Does the scheduler's and the kubelet's work for a pod (`<namespace>/<name>`). It binds the pod to a node and sets
   * its status to Running and Ready with this IP. Endpoints, EndpointSlices and a Deployment's availability then
   * follow. `ports` maps the pod's ports to local ones for connections of the API server.
   */
  async runPod(pod: string, ip: string, ports: Record<number, number> = {}): Promise<void> {
    for (const [port, local] of Object.entries(ports)) this.routeAddress(ip, Number(port), [local]);
    await playKubelet((request) => this.call(request), pod, ip);
  }

  async stopApiServer(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await this.#components.get("kube-apiserver")?.stop(signal);
  }

  async startApiServer(): Promise<void> {
    const args = [...apiServerArgs(this.#layout), ...(this.#options.apiServerArgs ?? [])];
    await this.#run("kube-apiserver", args);
    await this.#until("kube-apiserver", "/readyz");
  }

  /** Restarts it on the same port and with the same data. */
  async restartApiServer(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    await this.stopApiServer(signal);
    await this.startApiServer();
  }

  /** Copies etcd's data for `restore`. etcd and the API server are stopped during the copy. */
  async backUp(): Promise<void> {
    await this.#withoutEtcd(async (data) => await cp(data, `${data}.backup`, { recursive: true }));
  }

  /** Goes back to the backup. All later changes are lost, and etcd gives their versions out a second time. */
  async restore(): Promise<void> {
    await this.#withoutEtcd(async (data) => {
      await rm(data, { recursive: true });
      await cp(`${data}.backup`, data, { recursive: true });
    });
  }

  async #withoutEtcd(work: (data: string) => Promise<void>): Promise<void> {
    await this.stopApiServer("SIGKILL");
    await this.#components.get("etcd")?.stop("SIGTERM");
    await work(this.#layout.file("etcd-data"));
    await this.#run("etcd", etcdArgs(this.#layout));
    await this.startApiServer();
  }

  /** Ends everything and removes `folder`. With `keepLogs`, the logs stay, and standard error says where they are. */
  async stop({ keepLogs = false }: { keepLogs?: boolean } = {}): Promise<void> {
    this.#api.close();
    // An orderly end is not needed, because the data is deleted with the folder.
    await Promise.all([...this.#components.values()].reverse().map((component) => component.stop("SIGKILL")));
    await this.#egress.close();
    if (keepLogs) {
      await rm(this.#layout.file("etcd-data"), { recursive: true, force: true });
      process.stderr.write(`the logs of the test control plane are in ${this.#layout.logs}\n`);
    }
    await this.#processes.close(keepLogs);
  }

  async #run(name: "etcd" | "kube-apiserver" | "kube-controller-manager", args: string[]): Promise<void> {
    this.#components.set(name, this.#processes.start(name, await binary(name), args));
  }

  /** Waits until `path` answers 200. */
  async #until(name: string, path: string): Promise<void> {
    const isReady = async () => {
      const { status, body } = await this.call({ path });
      return status === 200 ? undefined : `${status} ${typeof body === "string" ? body : JSON.stringify(body)}`;
    };
    await until(`${name} to be ready`, READY_SECONDS, isReady, ...this.#components.values());
  }

  async #serviceByIp(ip: string): Promise<string | undefined> {
    const selected = `/api/v1/services?fieldSelector=spec.clusterIP%3D${encodeURIComponent(ip)}`;
    const answer = await this.call({ path: selected });
    // Kubernetes 1.30 cannot select Services by that field.
    const { body } = answer.status === 400 ? await this.call({ path: "/api/v1/services" }) : answer;
    const { items } = body as {
      items?: { metadata: { namespace: string; name: string }; spec: { clusterIP?: string } }[];
    };
    const metadata = items?.find(({ spec }) => spec.clusterIP === ip)?.metadata;
    return metadata === undefined ? undefined : `${metadata.namespace}/${metadata.name}`;
  }
}
