import assert from "node:assert/strict";
import type { MapConfigMap } from "#lib/documents/map-format.ts";
import { builderOf } from "#lib/documents/read-map.ts";
import { STATUS_SECRET, type StatusSecret, statusKeyIn } from "#lib/documents/status-page.ts";
import type { ControlPlane } from "../cluster/controlplane.ts";
import { runSwitchback, type ToolOptions, type ToolResult } from "../cluster/tools.ts";
import type { PEOPLE } from "./audit.ts";
import { hostsOf, type IndexMap } from "./objects.ts";

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

  /** A kubeconfig of a user who is bound to this Role of the chart, and to nothing else. */
  async person(role: (typeof PEOPLE)[number]): Promise<string> {
    await this.kubectl("-n", this.#namespace, "create", "rolebinding", role, "--role", role, "--group", role);
    return await this.cluster.kubeconfigFor({ clientCert: this.cluster.ca.client(`someone-${role}`, [role]) });
  }

  async bundles(): Promise<string[]> {
    const { webhooks } = await this.json<{ webhooks: Array<{ clientConfig: { caBundle?: string } }> }>(
      "get",
      "mutatingwebhookconfiguration",
      "switchback-webhook",
    );
    return webhooks.map(({ clientConfig }) => clientConfig.caBundle ?? "");
  }

  /** The index, with the annotations of the state. */
  async index(): Promise<IndexMap> {
    const args = ["-n", this.#namespace, "get", "cm", "-l", "switchback.dev/map=hosts"];
    const { items } = await this.json<{ items: MapConfigMap[] }>(...args);
    const { index } = builderOf(items);
    const state = items.find(({ metadata }) => metadata.name === "switchback-hosts");
    if ("code" in index || state === undefined) throw new Error("there is no index");
    return { ...index, annotations: state.metadata.annotations ?? {} };
  }

  /** The published lines: addresses by name. */
  async published(): Promise<ReadonlyMap<string, readonly string[]>> {
    const args = ["-n", this.#namespace, "get", "cm", "-l", "switchback.dev/map=hosts"];
    const { items } = await this.json<{ items: MapConfigMap[] }>(...args);
    return hostsOf(items);
  }

  async publishedNames(): Promise<Set<string>> {
    return new Set((await this.published()).keys());
  }

  /** The key of `/status` as the cluster's admin reads it. Empty if it does not exist yet. */
  async readStatusKey(): Promise<string> {
    const { body } = await this.cluster.call({
      path: `/api/v1/namespaces/${this.#namespace}/secrets/${STATUS_SECRET}`,
    });
    return statusKeyIn(body as StatusSecret) ?? "";
  }
}
