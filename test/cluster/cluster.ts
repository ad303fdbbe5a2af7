import { setTimeout as delay } from "node:timers/promises";
import { stringify } from "yaml";
import { binary } from "./binaries.ts";
import { nodeProgram, nodeTool } from "./node/kubectl.ts";
import { inNamespace } from "./node/run.ts";
import { runTool, SWITCHBACK, type ToolResult } from "./tools.ts";

const POLL_MS = 500;

/** A Kubernetes object, with the fields that the tests read. */
export type KubeObject = { apiVersion: string; kind: string; metadata: object } & Record<string, unknown>;

/** How programs of this machine reach a cluster. */
export interface ClusterAccess {
  tool(name: "kubectl" | "helm", args: string[], input: string): Promise<ToolResult>;
  /** Runs any other program, with the cluster's kubeconfig in its environment. */
  program(command: string, args: string[]): Promise<ToolResult>;
}

const OWN_NODE: ClusterAccess = { tool: nodeTool, program: nodeProgram };

/** Access with a given kubeconfig. The tools write their files into `home`. */
export function accessBy(kubeconfig: string, home: string): ClusterAccess {
  const env = { HOME: home, KUBECONFIG: kubeconfig };
  return {
    tool: async (name, args, input) => await runTool(await binary(name), args, env, input),
    program: async (command, args) => await runTool(command, args, env),
  };
}

/** The cluster of the end-to-end tests: the one-node cluster of this machine, or a cluster that already exists. */
export class Cluster {
  readonly #access: ClusterAccess;

  constructor(access: ClusterAccess = OWN_NODE) {
    this.#access = access;
  }

  /** Runs kubectl or helm until it ends. A failure is a `code` other than 0. */
  async tool(name: "kubectl" | "helm", args: string[], input = ""): Promise<ToolResult> {
    return await this.#access.tool(name, args, input);
  }

  /** Runs `switchback` as a user does, with the cluster's kubeconfig. */
  async switchback(...args: string[]): Promise<ToolResult> {
    return await this.#access.program(process.execPath, [SWITCHBACK, ...args]);
  }

  /** Returns kubectl's standard output. @throws with kubectl's error message. */
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

  /** Runs a command in a running pod (`<namespace>/<name>`, or `<namespace>/deployment/<name>`). */
  async exec(pod: string, ...command: string[]): Promise<ToolResult> {
    const [namespace = "", ...name] = pod.split("/");
    return await this.tool("kubectl", ["-n", namespace, "exec", name.join("/"), "--", ...command]);
  }

  /**
   * The logs of all pods that a selector matches, since a time. The API rounds that time down to a second
   * (`sinceTime` in PodLogOptions is a metav1.Time), so each line's own time decides.
   */
  async logs(namespace: string, selector: string, since?: Date): Promise<string> {
    const args = ["-n", namespace, "logs", "-l", selector, "--tail=-1", "--all-containers"];
    if (since === undefined) return await this.kubectl(...args);
    const text = await this.kubectl(...args, `--since-time=${since.toISOString()}`, "--timestamps");
    const lines = text.split("\n").map((line) => [line.slice(0, line.indexOf(" ")), line] as const);
    const later = lines.filter(([time]) => Date.parse(time) >= since.getTime());
    return later.map(([time, line]) => `${line.slice(time.length + 1)}\n`).join("");
  }

  /**
   * Waits until a Helm release's workloads in these namespaces are rolled out. This replaces `--wait`: Helm 4
   * computes statuses in parallel and may take an older status of a Deployment for the last one. Then it fails
   * although everything is ready, or does not wait at all.
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
   * Polls until `check` returns a value. An error of `check` counts as no value. @throws with the last error after
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
