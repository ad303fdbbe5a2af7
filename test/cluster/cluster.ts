import { setTimeout as delay } from "node:timers/promises";
import { stringify } from "yaml";
import { binary } from "./binaries.ts";
import { nodeProgram, nodeTool } from "./node/kubectl.ts";
import { inNamespace } from "./node/run.ts";
import { runTool, SWITCHBACK, type ToolResult } from "./tools.ts";

const POLL_MS = 500;

/** A Kubernetes object, as far as the tests look into one. */
export type KubeObject = { apiVersion: string; kind: string; metadata: object } & Record<string, unknown>;

/** How programs of this machine reach a cluster. */
export interface ClusterAccess {
  tool(name: "kubectl" | "helm", args: string[], input: string): Promise<ToolResult>;
  /** Any other program, with the cluster's kubeconfig in its environment. */
  program(command: string, args: string[]): Promise<ToolResult>;
}

const OWN_NODE: ClusterAccess = { tool: nodeTool, program: nodeProgram };

/** With somebody's kubeconfig; `home` takes what the tools write. */
export function accessBy(kubeconfig: string, home: string): ClusterAccess {
  const env = { HOME: home, KUBECONFIG: kubeconfig };
  return {
    tool: async (name, args, input) => await runTool(await binary(name), args, env, input),
    program: async (command, args) => await runTool(command, args, env),
  };
}

/** The one-node cluster of this machine, or one that is there already, as the end-to-end tests use it. */
export class Cluster {
  readonly #access: ClusterAccess;

  constructor(access: ClusterAccess = OWN_NODE) {
    this.#access = access;
  }

  /** kubectl or helm to its end. A failure is a `code` that is not 0. */
  async tool(name: "kubectl" | "helm", args: string[], input = ""): Promise<ToolResult> {
    return await this.#access.tool(name, args, input);
  }

  /** `switchback`, as somebody runs it with the cluster's kubeconfig. */
  async switchback(...args: string[]): Promise<ToolResult> {
    return await this.#access.program(process.execPath, [SWITCHBACK, ...args]);
  }

  /** Standard output. @throws with what kubectl said. */
  async kubectl(...args: string[]): Promise<string> {
    return await this.#expect("kubectl", args);
  }

  async helm(...args: string[]): Promise<string> {
    return await this.#expect("helm", args);
  }

  async get<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.kubectl("get", ...args, "-o", "json")) as T;
  }

  async apply(...objects: KubeObject[]): Promise<void> {
    await this.#expect("kubectl", ["apply", "--server-side", "--force-conflicts", "-f", "-"], toYaml(objects));
  }

  async delete(...objects: KubeObject[]): Promise<void> {
    await this.#expect("kubectl", ["delete", "--ignore-not-found", "-f", "-"], toYaml(objects));
  }

  /** A command in a running pod (`<namespace>/<name>`, or `<namespace>/deployment/<name>`). */
  async exec(pod: string, ...command: string[]): Promise<ToolResult> {
    const [namespace = "", ...name] = pod.split("/");
    return await this.tool("kubectl", ["-n", namespace, "exec", name.join("/"), "--", ...command]);
  }

  /** The log of all pods of a selection since a time. */
  async logs(namespace: string, selector: string, since?: Date): Promise<string> {
    const from = since === undefined ? [] : [`--since-time=${since.toISOString()}`];
    return await this.kubectl("-n", namespace, "logs", "-l", selector, "--tail=-1", "--all-containers", ...from);
  }

  /**
   * Until what a Helm release runs in these namespaces is rolled out. Instead of `--wait`: Helm 4 works out
   * statuses side by side and may take an older one of a Deployment for its last; then it fails although all is
   * ready, or waits for nothing.
   */
  async releaseRuns(release: string, ...namespaces: string[]): Promise<void> {
    for (const namespace of namespaces) {
      const of = ["deployments,daemonsets", "-l", `app.kubernetes.io/instance=${release}`];
      const names = await this.kubectl("-n", namespace, "get", ...of, "-o", "name");
      await this.rolledOut(namespace, ...names.split("\n").filter((name) => name !== ""));
    }
  }

  async rolledOut(namespace: string, ...workloads: string[]): Promise<void> {
    for (const workload of workloads) {
      await this.kubectl("-n", namespace, "rollout", "status", workload, "--timeout=120s");
    }
  }

  /** Runs a command in the network namespace that simulates the internet. */
  async outside(command: string, ...args: string[]): Promise<ToolResult> {
    const [program, all] = inNamespace("internet", command, args);
    return await runTool(program, all, {});
  }

  /**
   * Polls until `check` gives a value; an error of `check` counts as none yet. @throws with the last error after
   * `seconds`.
   */
  async until<T>(what: string, seconds: number, check: () => Promise<T | undefined>): Promise<T> {
    const deadline = Date.now() + seconds * 1000;
    let last: unknown = "no value";
    do {
      try {
        const value = await check();
        if (value !== undefined) return value;
      } catch (error) {
        last = error;
      }
      await delay(POLL_MS);
    } while (Date.now() < deadline);
    throw new Error(`${what}: not after ${seconds} s`, { cause: last });
  }

  async #expect(name: "kubectl" | "helm", args: string[], input = ""): Promise<string> {
    const { code, stdout, stderr } = await this.tool(name, args, input);
    if (code !== 0) throw new Error(`${name} ${args.join(" ")}: ${stderr.trim() || stdout.trim() || `code ${code}`}`);
    return stdout;
  }
}

function toYaml(objects: KubeObject[]): string {
  return objects.map((object) => stringify(object)).join("---\n");
}
