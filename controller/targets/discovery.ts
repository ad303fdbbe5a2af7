import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { Reconciler } from "#lib/kube/reconciler.ts";
import { type Informer, watchObjects } from "#lib/kube/watch.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { informerState } from "../sources/followed-kind.ts";
import type { RoutingHints, SourceState } from "../sources/types.ts";
import { type Found, findTarget } from "./find-target.ts";
import type { Holding } from "./match-service.ts";
import type { RawService, ServiceView } from "./service-view.ts";
import { type TableConfig, TargetTable } from "./target-table.ts";

interface DiscoveryDeps {
  /** Undefined: no Service is read, so that only classes decide. */
  readonly client?: Pick<KubeClient, "get" | "stream"> | undefined;
  readonly config: TableConfig;
  readonly log: Logger;
  /** The IPs of the nodes, if known. */
  readonly nodes?: ReadonlySet<string> | undefined;
}

/** What is kept of a Service that is not relevant for targets: that it exists. */
const OTHER = "other";
/** Combines changes of several Services, because each change resolves all routing hints again. */
const SETTLE_MS = 20;

/** The table of Services and targets, which follows the Services of the cluster. */
export class TargetDiscovery extends TargetTable {
  readonly #deps: DiscoveryDeps;
  readonly #listeners: (() => void)[] = [];
  #onDeleted: () => void = () => {};
  readonly #reporter = new Reconciler({
    reconcile: () => {
      for (const listener of this.#listeners) listener();
      return undefined;
    },
  });
  #services: Informer<ServiceView | typeof OTHER> | undefined;

  constructor(deps: DiscoveryDeps) {
    super(deps.config, deps.client !== undefined, deps.nodes);
    this.#deps = deps;
  }

  /**
   * `onChange` is called when hints have to be resolved again, and definitions may have changed. `onSynced` is called
   * once, when answers are valid. Before that, "no target" has no meaning.
   */
  start(onChange: () => void, onSynced: () => void): void {
    const { client, log } = this.#deps;
    this.follow(onChange);
    if (client === undefined) {
      onSynced();
      return;
    }
    this.#services = watchObjects<ServiceView | typeof OTHER, RawService>({
      client,
      path: corePath("services"),
      // Services of any type may have externalIPs, and no field selector can find those.
      project: (raw) => this.view(raw) ?? OTHER,
      onChange: ({ key, before = OTHER, after }) => {
        if (after === undefined) this.#onDeleted();
        if (before === OTHER && (after ?? OTHER) === OTHER) return;
        this.set(key, after === OTHER ? undefined : after);
        this.#reporter.enqueue(SETTLE_MS);
      },
      onSynced,
      log,
    });
  }

  /** Equal arguments have equal answers between two changes. */
  find(hints: RoutingHints, holding: Holding): Found {
    return findTarget(hints, holding, this);
  }

  /** `onChange` is called when a definition may have changed. */
  follow(onChange: () => void): void {
    this.#listeners.push(onChange);
  }

  /** Whether a Service exists, relevant or not, by the key `namespace/name`. */
  hasService(key: string): boolean {
    return this.#services?.objects().has(key) === true;
  }

  /** `onDeleted` is called for each Service that is deleted, relevant or not. */
  followDeleted(onDeleted: () => void): void {
    this.#onDeleted = onDeleted;
  }

  get synced(): boolean {
    return !this.discovers || this.#services?.state.synced === true;
  }

  state(): SourceState[] {
    if (!this.discovers) return [];
    const services = informerState("services", this.#services);
    return [{ ...services, problems: [...services.problems, ...this.problems()] }];
  }

  async stop(): Promise<void> {
    await Promise.all([this.#reporter.stop(), this.#services?.stop()]);
  }
}
