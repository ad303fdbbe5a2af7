import { once } from "node:events";
import type { observe } from "#controller/observe.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Fact, known, notKnown } from "./fact.ts";
import type { InstallFacts, NamesFacts } from "./facts.ts";
import { gatherNodeAddresses } from "./gather-cluster.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 30_000, stuckMs: 1_000 };

interface ObserveOptions extends Pick<Parameters<typeof observe>[1], "client" | "answers" | "identity"> {
  /** Switchback's namespace. */
  readonly namespace: string;
  /** The installed configuration. Default: that of a new installation. */
  readonly config: InstallFacts["config"];
  /** Whether proxies have asked the ingress controllers for a header. */
  readonly isAsked?: boolean;
  readonly patience?: Pick<Parameters<typeof observe>[1], "withinMs" | "stuckMs">;
}

/**
 * What a controller would report about the cluster if it asked nobody else. Without `answers` it asks no DNS: this
 * machine may have another DNS than the cluster. If no proxy asks for headers, a name counts as served although the
 * header is unknown.
 */
export async function observeOnly(options: ObserveOptions) {
  const { client, answers, identity, namespace, config: installed, isAsked = false, patience = PATIENCE } = options;
  const [controller, { parseConfig }, nodes] = await Promise.all([
    import("#controller/observe.ts"),
    import("#lib/config/parse.ts"),
    gatherNodeAddresses(client),
  ]);
  const config = (installed.known && installed.value) || parseConfig({});
  const { policy, discovery } = config;
  const asking = {
    ...{ ...config, namespace },
    policy: answers === undefined ? { ...policy, verifyDns: "off" as const } : policy,
    discovery: isAsked ? discovery : { ...discovery, detect: false },
  };
  const status = await controller.observe(asking, {
    client: { ...client, stream: (_path, _query, stream) => silence(stream) },
    answers,
    identity,
    clusterDomain: config.clusterDomain,
    nodes: nodes.known ? nodes.value : undefined,
    ...patience,
  });
  return { nodes, status };
}

interface NamesOptions {
  readonly client: KubeClient;
  /** Switchback's namespace. */
  readonly namespace: string;
  readonly install: InstallFacts;
}

/**
 * The public names of the cluster, each with the Service that serves it, as a controller decides that this process runs
 * without its writes.
 */
export async function gatherNames({ client, namespace, install }: NamesOptions): Promise<Fact<NamesFacts>> {
  try {
    const options = { client, namespace, config: install.config, identity: "the doctor", answers: undefined };
    const { nodes, status } = await observeOnly(options);
    const { sources, names, targets } = status;
    const unread = sources.flatMap(({ name, synced, problems }) =>
      synced ? [] : problems.map(({ code, text }) => ({ kind: name, code, text })),
    );
    const upstreams = new Map(targets.map(({ name, upstream }) => [name, upstream]));
    return known({
      names: names.map(({ name, target }) => ({ name, service: upstreams.get(target ?? "") })),
      unread: nodes.known ? unread : [...unread, { kind: "nodes", ...nodes.reason }],
    });
  } catch (error) {
    return notKnown("not-read", describeError(error));
  }
}

/** A watch that never sends an event: a list is enough here, and the doctor's Role has no other right. */
export async function silence({ signal, onOpen }: Parameters<KubeClient["stream"]>[2]): Promise<never> {
  onOpen?.();
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}
