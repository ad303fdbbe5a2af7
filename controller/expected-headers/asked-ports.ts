import { upstreamHost } from "#lib/documents/listeners.ts";
import { MAX_ASKED } from "#lib/documents/proxy-page.ts";
import type { PublishedAsk, PublishedTarget } from "#lib/documents/targets-format.ts";
import { type AskableTarget, askedPorts } from "./decide-protocols.ts";
import type { HeaderAnswers } from "./header-answers.ts";
import type { HeaderDecisions } from "./header-decisions.ts";

/** Maximum number of ports of one namespace that are asked. At 20 rounds a minute, that takes ten minutes. */
const MAX_OF_NAMESPACE = 200;
/** Ports that are asked with TLS. Other ports are asked with HTTP. */
const TLS_PORTS: readonly number[] = [443, 8443];

/**
 * Returns a name of a target: `last` if it still is one. Ingress controllers may close a connection for any other
 * name.
 */
export type ExampleOf = (target: string, last?: string) => string | undefined;

interface AskInput {
  readonly headers: Pick<HeaderDecisions, "defined" | "wantedOf"> & {
    readonly answers: Pick<HeaderAnswers, "answerOf">;
  };
  /** The targets that have accepted claims. Those that are asked already stay. */
  readonly inUse: ReadonlySet<string>;
  readonly exampleOf: ExampleOf;
  readonly clusterDomain: string | undefined;
  /** The last publication. */
  readonly published: { readonly targets: readonly PublishedTarget[] };
}

/**
 * Adds the ports to ask to the targets that are published. Targets that nobody relays yet are added with only these.
 * A target without a name cannot be asked yet.
 */
export function withAskedPorts(listed: readonly PublishedTarget[], input: AskInput): PublishedTarget[] {
  const byName = new Map(listed.map((target) => [target.name, target]));
  const before = new Map(
    input.published.targets.flatMap(({ name, ask = [] }) => ask.map((each) => [name, each.name] as const)),
  );
  const counts = new Map<string | undefined, number>();
  let left = MAX_ASKED;
  const targets = [...input.inUse].sort().flatMap((name) => input.headers.defined(name) ?? []);
  for (const target of targets.sort((one, other) => +before.has(other.name) - +before.has(one.name))) {
    const { name, upstream, upstreamIPs } = target;
    const namespace = "service" in upstream ? upstream.service.namespace : undefined;
    const count = counts.get(namespace) ?? 0;
    const ask = askOf(target, before.get(name), input).slice(0, Math.min(left, MAX_OF_NAMESPACE - count));
    if (ask.length === 0) continue;
    left -= ask.length;
    counts.set(namespace, count + ask.length);
    byName.set(name, {
      ...(byName.get(name) ?? { name, ports: [], clusterIPs: [] }),
      upstream: upstreamHost(target, input.clusterDomain),
      ...(upstreamIPs && { upstreamIPs }),
      ...(namespace !== undefined && { namespace }),
      ask,
    });
  }
  return [...byName.values()];
}

function askOf(target: AskableTarget, last: string | undefined, { headers, exampleOf }: AskInput) {
  const name = serverName(exampleOf(target.name, last)) ?? last;
  if (name === undefined) return [];
  return askedPorts(target, headers.wantedOf(target.name)).map((entry): PublishedAsk => {
    const { port, upstreamPort = port, upstreamIPs } = entry;
    const answer = headers.answers.answerOf(target.name, port);
    const speaks = TLS_PORTS.includes(port) ? "tls" : "http";
    return { port, speaks, name, upstreamPort, ...(upstreamIPs && { upstreamIPs }), ...(answer && { answer }) };
  });
}

/** The name itself, or for a wildcard a name that it covers. */
function serverName(name: string | undefined): string | undefined {
  return name?.replace(/^\*/, "switchback-asks");
}
