import { once } from "node:events";
import type { Config } from "#lib/config/schema.ts";
import { describeError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type Fact, known, notKnown } from "./fact.ts";
import type { InstallFacts, NamesFacts } from "./facts.ts";
import { gatherNodeAddresses } from "./gather-cluster.ts";

/** Timeouts for reading the sources. 50,000 Ingresses take a few seconds. */
const PATIENCE = { withinMs: 30_000, stuckMs: 1_000 };

interface NamesOptions {
  readonly client: KubeClient;
  /** Switchback's namespace. */
  readonly namespace: string;
  readonly install: InstallFacts;
}

/**
 * The public names of the cluster, each with the Service that serves it, as a controller decides that this process runs
 * without its writes. It asks no DNS: this machine may have another DNS than the cluster. No proxy asks for headers, so
 * a name counts as served although the header is unknown.
 */
export async function gatherNames({ client, namespace, install }: NamesOptions): Promise<Fact<NamesFacts>> {
  const [{ observe }, { parseConfig }, nodes] = await Promise.all([
    import("#controller/observe.ts"),
    import("#lib/config/parse.ts"),
    gatherNodeAddresses(client),
  ]);
  const installed = install.config.known ? install.config.value : undefined;
  const config = { ...(installed ?? parseConfig({})), namespace };
  try {
    const { sources, names, targets } = await observe(withoutQuestions(config), {
      client: { ...client, stream: (_path, _query, options) => silence(options) },
      clusterDomain: config.clusterDomain,
      identity: "the doctor",
      nodes: nodes.known ? nodes.value : undefined,
      ...PATIENCE,
    });
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

function withoutQuestions(config: Config): Config {
  return {
    ...config,
    policy: { ...config.policy, verifyDns: "off" },
    discovery: { ...config.discovery, detect: false },
  };
}

/** A watch that never sends an event: a list is enough here, and the doctor's Role has no other right. */
export async function silence({ signal, onOpen }: Parameters<KubeClient["stream"]>[2]): Promise<never> {
  onOpen?.();
  if (!signal.aborted) await once(signal, "abort");
  throw signal.reason;
}
