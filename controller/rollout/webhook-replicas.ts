import { TARGETS_NAME } from "#lib/documents/targets-name.ts";
import { type LoadedMap, readLoaded } from "#lib/documents/webhook-loaded-page.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, type RawEndpointSlice, readyAddresses } from "#lib/kube/endpoints.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { WebhookFacts } from "./restart-decision.ts";

const SERVICE = "switchback-webhook";
/** The name of the Service's port for the health server. */
const PORT = "metrics";
const CONFIGURATION = resourcePath({
  group: "admissionregistration.k8s.io",
  version: "v1",
  resource: "mutatingwebhookconfigurations",
  name: "switchback-webhook",
});

/** The health server of one replica. */
interface Replica {
  readonly address: string;
  readonly port: number;
}

/**
 * The webhook's ready replicas. Each replica is asked directly, not through the Service, which map it has loaded.
 * Then a dry run tests whether the API server can call the webhook. The API server has its own route (kube-proxy, a
 * firewall) and its own copy of caBundle. A pod that is created before the API server can call the webhook is not
 * injected, because the entries for pods fail open.
 */
export class WebhookReplicas {
  readonly #client: Pick<KubeClient, "get" | "mergePatch">;
  readonly #probed: string;
  readonly #watcher: Informer<readonly Replica[]>;

  constructor(deps: { client: Pick<KubeClient, "get" | "mergePatch" | "stream">; log: Logger; namespace: string }) {
    this.#client = deps.client;
    this.#probed = corePath("configmaps", deps.namespace, TARGETS_NAME);
    this.#watcher = watchObjects<readonly Replica[], RawEndpointSlice>({
      client: deps.client,
      ...endpointSlicesOf(deps.namespace, SERVICE),
      project: readyReplicas,
      onChange: () => {},
      log: deps.log,
    });
  }

  /**
   * Whether at least one replica is ready, every ready replica uses this map, and the API server can call the
   * webhook. A missing answer counts as no.
   */
  async ask(wanted: LoadedMap): Promise<WebhookFacts> {
    const missing = await this.#configurationProblem();
    if (missing !== undefined) return behind(missing);
    if (!this.#watcher.state.synced) return behind("the webhook's replicas are not known yet");
    const all = [...this.#watcher.objects().values()].flat();
    // An endpoint that moves between slices is in both for a while.
    const replicas = [...new Map(all.map((replica) => [replica.address, replica])).values()];
    if (replicas.length === 0) return behind("no webhook replica is ready");
    const answers = await Promise.all(replicas.map((replica) => askOne(replica, wanted)));
    const problems = answers.filter((answer) => answer !== undefined);
    if (problems.length > 0) {
      const count = `${problems.length} of ${replicas.length} webhook replicas`;
      return behind(`${count} do not use this map yet: ${problems[0]}`);
    }
    return (await this.#callProblem()) ?? { ok: true, text: `${replicas.length} webhook replicas use the map` };
  }

  /**
   * Tests the call with a dry run, which changes nothing. For it, the API server calls the webhook through the
   * chart's entry `reachable.switchback.dev`. If there are several API servers, only one is tested.
   */
  async #callProblem(): Promise<WebhookFacts | undefined> {
    try {
      await this.#client.mergePatch(this.#probed, {}, { dryRun: true });
      return undefined;
    } catch (error) {
      const text = `the API server cannot call the webhook: ${describeError(error)}`;
      return { ok: false, code: "webhook-unreachable", text };
    }
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

function behind(text: string): WebhookFacts {
  return { ok: false, code: "webhook-behind", text };
}

function readyReplicas(slice: RawEndpointSlice): readonly Replica[] {
  const port = slice.ports?.find(({ name }) => name === PORT)?.port;
  return port === undefined ? [] : readyAddresses(slice).map((address) => ({ address, port }));
}

/** The problem of one replica; undefined: no problem. */
async function askOne({ address, port }: Replica, { mapRevision, maxNames }: LoadedMap): Promise<string | undefined> {
  try {
    const loaded = await readLoaded(address, port);
    if (loaded.mapRevision !== mapRevision) return `${address} has ${(loaded.mapRevision ?? "none").slice(0, 20)}`;
    return loaded.maxNames === maxNames ? undefined : `${address} has another inject.maxNames`;
  } catch (error) {
    return `${address}: ${describeError(error)}`;
  }
}
