import assert from "node:assert/strict";
import { type StatusSecret, statusKeyIn } from "#lib/documents/status-page.ts";
import type { ControlPlane } from "../cluster/controlplane.ts";
import { runSwitchback, type ToolOptions, type ToolResult } from "../cluster/tools.ts";
import { OBJECTS, publishedIn } from "../published.ts";
import { READER } from "./audit.ts";

/** A cluster in which Switchback is installed, as a person reads and changes it. */
export class Installation {
  readonly cluster: ControlPlane;
  /** The folder for the files of this system. */
  protected readonly folder: string;
  readonly #namespace: string;

  constructor(cluster: ControlPlane, folder: string, namespace: string) {
    this.cluster = cluster;
    this.folder = folder;
    this.#namespace = namespace;
  }

  async kubectl(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.cluster.kubectl(...args);
    assert.equal(code, 0, `kubectl ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** Applies YAML, as a user pipes it. */
  async apply(yaml: string): Promise<void> {
    const { code, stderr } = await this.cluster.tool("kubectl", ["apply", "-f", "-"], { input: yaml });
    assert.equal(code, 0, stderr);
  }

  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.kubectl(...args, "-o", "json")) as T;
  }

  /** Runs `switchback` as a person with a kubeconfig does. */
  async cli(args: readonly string[], { kubeconfig, input }: ToolOptions = {}): Promise<ToolResult> {
    const env = { HOME: this.folder, KUBECONFIG: kubeconfig ?? this.cluster.adminKubeconfig };
    return await runSwitchback(args, env, input);
  }

  /** A kubeconfig of a user who is bound to the chart's ClusterRole in our namespace, and to nothing else. */
  async person(): Promise<string> {
    const binding = ["rolebinding", READER, "--clusterrole", READER, "--group", READER];
    await this.kubectl("-n", this.#namespace, "create", ...binding);
    return await this.cluster.kubeconfigFor({ clientCert: this.cluster.ca.client(`someone-${READER}`, [READER]) });
  }

  async bundles(): Promise<string[]> {
    const { webhooks } = await this.json<{ webhooks: Array<{ clientConfig: { caBundle?: string } }> }>(
      "get",
      "mutatingwebhookconfiguration",
      "switchback-webhook",
    );
    return webhooks.map(({ clientConfig }) => clientConfig.caBundle ?? "");
  }

  /** The ConfigMaps of Switchback's namespace. */
  async configMaps(): Promise<readonly object[]> {
    return (await this.json<{ items: object[] }>("-n", this.#namespace, "get", "cm")).items;
  }

  /** The published map. Throws while it is incomplete. */
  async map(): Promise<ReturnType<typeof publishedIn> & { readonly revision: string }> {
    const { revision, ...rest } = publishedIn(await this.configMaps());
    if (revision === undefined) throw new Error("the map is incomplete");
    return { ...rest, revision };
  }

  /** The published lines: addresses by name. */
  async published(): Promise<ReadonlyMap<string, readonly string[]>> {
    return publishedIn(await this.configMaps()).hosts;
  }

  async publishedNames(): Promise<Set<string>> {
    return new Set((await this.published()).keys());
  }

  /** The key of `/status` as the cluster's admin reads it. Empty if it does not exist yet. */
  async readStatusKey(): Promise<string> {
    const { body } = await this.cluster.call({
      path: `/api/v1/namespaces/${this.#namespace}/secrets/${OBJECTS.statusKey}`,
    });
    return statusKeyIn(body as StatusSecret) ?? "";
  }
}

/** The fields of a Deployment or DaemonSet that are read here. */
interface Workload {
  readonly spec: { readonly template: { readonly spec: PodSpec } };
}

interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
}

interface Container {
  readonly command?: readonly string[];
  readonly env?: ReadonlyArray<{ readonly name: string; readonly value?: string }>;
  readonly resources: { readonly limits: { readonly memory: string } };
}

/**
 * How the chart runs a component: the flags of `node`, the variables with a fixed value, and the memory limit in bytes.
 */
export function containerOf(workload: unknown): { flags: string[]; env: Record<string, string>; memoryLimit: number } {
  const { containers, initContainers = [] } = (workload as Workload).spec.template.spec;
  // A resolver's container is a native sidecar; the container beside it is CoreDNS.
  const container = [...initContainers, ...containers].find(({ command }) => command?.[0] === "node");
  assert.ok(container);
  const { command = [], env = [], resources } = container;
  const limit = /^(\d+)Mi$/.exec(resources.limits.memory);
  assert.ok(limit, `a limit in Mi: ${resources.limits.memory}`);
  const program = command.findIndex((argument, index) => index > 0 && !argument.startsWith("-"));
  const fixed = env.flatMap(({ name, value }) => (value === undefined ? [] : [[name, value] as const]));
  return {
    // Node strips types with WebAssembly, which jitless disables; the image has JavaScript instead.
    flags: command.slice(1, program).filter((flag) => flag !== "--jitless"),
    env: Object.fromEntries(fixed),
    memoryLimit: Number(limit[1]) * 1024 * 1024,
  };
}
