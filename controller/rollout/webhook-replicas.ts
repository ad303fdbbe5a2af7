import { type LoadedMap, readLoaded } from "#lib/documents/webhook-loaded-page.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { WebhookFacts } from "./restart-decision.ts";

const SERVICE = "switchback-webhook";
/** The Service's port of the health server. */
const PORT = "metrics";
const CONFIGURATION = resourcePath({
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  name: "switchback-webhook",
});

/** One replica's health server. */
interface Replica {
  readonly address: string;
  readonly port: number;
}

/** The webhook's ready replicas. Each is asked by itself, not through the Service, which map it has loaded. */
export class WebhookReplicas {
  readonly #client: Pick<KubeClient, "get">;
  readonly #watcher: Informer<readonly Replica[]>;

  constructor(deps: { client: Pick<KubeClient, "get" | "stream">; log: Logger; namespace: string }) {
    this.#client = deps.client;
    this.#watcher = watchObjects<readonly Replica[], RawEndpointSlice>({
      client: deps.client,
      ...endpointSlicesOf(deps.namespace, SERVICE),
      project: readyReplicas,
      onChange: () => {},
      log: deps.log,
    });
  }

  /** Whether at least one replica is ready and every ready replica uses this map. A missing answer counts as no. */
  async ask(wanted: LoadedMap): Promise<WebhookFacts> {
    const missing = await this.#configurationProblem();
    if (missing !== undefined) return { ok: false, text: missing };
    if (!this.#watcher.state.synced) return { ok: false, text: "the webhook's replicas are not known yet" };
    const all = [...this.#watcher.objects().values()].flat();
    // An endpoint that moves from one slice to another is in both for a while.
    const replicas = [...new Map(all.map((replica) => [replica.address, replica])).values()];
    if (replicas.length === 0) return { ok: false, text: "no webhook replica is ready" };
    const answers = await Promise.all(replicas.map((replica) => askOne(replica, wanted)));
    const [problem] = answers.filter((answer) => answer !== undefined);
    if (problem === undefined) return { ok: true, text: `${replicas.length} webhook replicas use the map` };
    const behind = answers.filter((answer) => answer !== undefined).length;
    return { ok: false, text: `${behind} of ${replicas.length} webhook replicas do not use this map yet: ${problem}` };
  }

  /** Without the webhook's configuration, for example during an uninstall, new pods are not injected at all. */
  async #configurationProblem(): Promise<string | undefined> {
    try {
      await this.#client.get(CONFIGURATION);
      return undefined;
    } catch (error) {
      return `pods would not be injected: ${describeError(error)}`;
    }
  }

  get inactiveMs(): number {
    return this.#watcher.state.inactiveMs;
  }

  async stop(): Promise<void> {
    await this.#watcher.stop();
  }
}

function readyReplicas(slice: RawEndpointSlice): readonly Replica[] {
  const port = slice.ports?.find(({ name }) => name === PORT)?.port;
  return port === undefined ? [] : readyAddresses(slice).map((address) => ({ address, port }));
}

/** The problem of one replica; undefined if there is none. */
async function askOne({ address, port }: Replica, { mapRevision, maxNames }: LoadedMap): Promise<string | undefined> {
  try {
    const loaded = await readLoaded(address, port);
    if (loaded.mapRevision !== mapRevision) return `${address} has ${(loaded.mapRevision ?? "none").slice(0, 20)}`;
    return loaded.maxNames === maxNames ? undefined : `${address} has another inject.maxNames`;
  } catch (error) {
    return `${address}: ${describeError(error)}`;
  }
}
