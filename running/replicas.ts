import { describeError } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { resourcePath } from "../kube/paths.ts";
import type { ApiObject } from "../kube/types.ts";
import { type Watcher, watchObjects } from "../kube/watch.ts";
import type { Logger } from "../observe/log.ts";
import type { WebhookFacts } from "./decide.ts";

const SERVICE = "switchback-webhook";
/** The Service's port that leads to the health server. */
const PORT = "metrics";
const CONFIGURATION = resourcePath({
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  name: "switchback-webhook",
});
const ASK_MS = 2_000;
const MAX_ANSWER = 4_096;

type EndpointSlice = ApiObject & {
  endpoints?: ReadonlyArray<{ addresses: readonly string[]; conditions?: { ready?: boolean } }> | null;
  ports?: ReadonlyArray<{ name?: string; port?: number }> | null;
};

/** What a replica must use. */
export interface Wanted {
  readonly revision: string;
  readonly maxNames: number;
}

/** The webhook's ready replicas, and what each says it has loaded: asked one by one, not through the Service. */
export class Replicas {
  readonly #client: Pick<KubeClient, "get">;
  readonly #watcher: Watcher<readonly string[]>;

  constructor(deps: { client: Pick<KubeClient, "get" | "stream">; log: Logger; namespace: string }) {
    this.#client = deps.client;
    this.#watcher = watchObjects<readonly string[], EndpointSlice>({
      client: deps.client,
      path: resourcePath({
        group: "discovery.k8s.io",
        version: "v1",
        namespace: deps.namespace,
        resource: "endpointslices",
      }),
      labelSelector: `kubernetes.io/service-name=${SERVICE}`,
      project: readyAddresses,
      onChange: () => {},
      log: deps.log,
    });
  }

  /** Whether every ready replica uses this map, and there is one. An answer that does not come counts as no. */
  async ask(wanted: Wanted): Promise<WebhookFacts> {
    const missing = await this.#configurationProblem();
    if (missing !== undefined) return { ok: false, text: missing };
    if (!this.#watcher.state.synced) return { ok: false, text: "the webhook's replicas are not known yet" };
    const addresses = [...new Set([...this.#watcher.objects().values()].flat())];
    if (addresses.length === 0) return { ok: false, text: "no webhook replica is ready" };
    const answers = await Promise.all(addresses.map((address) => askOne(address, wanted)));
    const [problem] = answers.filter((answer) => answer !== undefined);
    if (problem === undefined) return { ok: true, text: `${addresses.length} webhook replicas use the map` };
    const behind = answers.filter((answer) => answer !== undefined).length;
    return { ok: false, text: `${behind} of ${addresses.length} webhook replicas do not use this map yet: ${problem}` };
  }

  /** Without the webhook's configuration, as while Switchback is being uninstalled, new pods would get nothing at all. */
  async #configurationProblem(): Promise<string | undefined> {
    try {
      await this.#client.get(CONFIGURATION);
      return undefined;
    } catch (error) {
      return `no pod would be injected: ${describeError(error)}`;
    }
  }

  get inactiveMs(): number {
    return this.#watcher.state.inactiveMs;
  }

  async stop(): Promise<void> {
    await this.#watcher.stop();
  }
}

/** `203.0.113.7:8081`, `[2001:db8::7]:8081`. */
function readyAddresses({ endpoints, ports }: EndpointSlice): readonly string[] {
  const port = ports?.find(({ name }) => name === PORT)?.port;
  if (port === undefined) return [];
  return (endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .flatMap(({ addresses }) => addresses.slice(0, 1))
    .map((address) => `${address.includes(":") ? `[${address}]` : address}:${port}`);
}

/** What is wrong with one replica; undefined: nothing. */
async function askOne(address: string, { revision, maxNames }: Wanted): Promise<string | undefined> {
  try {
    const response = await fetch(`http://${address}/loaded`, {
      signal: AbortSignal.timeout(ASK_MS),
      redirect: "error",
    });
    const loaded = JSON.parse((await response.text()).slice(0, MAX_ANSWER)) as Partial<Wanted> | null;
    if (loaded?.revision !== revision) return `${address} has ${String(loaded?.revision ?? "none").slice(0, 20)}`;
    return loaded.maxNames === maxNames ? undefined : `${address} has another inject.maxNames`;
  } catch (error) {
    return `${address}: ${describeError(error)}`;
  }
}
