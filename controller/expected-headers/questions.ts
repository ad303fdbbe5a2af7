import { shortHash } from "#hostmap/hash.ts";
import {
  ANSWER_HOLDS_MS,
  type AttributedAnswer,
  type HeaderQuestion,
  MAX_QUESTIONS,
  type PublishedAnswer,
  questionKey,
} from "#lib/documents/header-questions.ts";
import { upstreamHost } from "#lib/documents/listeners.ts";
import { type AskableTarget, askedPorts } from "./decide-protocols.ts";

/** Ports that are asked with TLS. Other ports are asked with HTTP. */
const TLS_PORTS: readonly number[] = [443, 8443];
/**
 * A known answer is published again only if it changes, or is this much younger, because each write reaches every
 * proxy.
 */
const REFRESH_MS = 15 * 60_000;

/**
 * Returns a name of a target: `last` if it still is one. Ingress controllers may close a connection for any other
 * name.
 */
export type ExampleOf = (target: string, last?: string) => string | undefined;

export interface QuestionInput {
  /** The targets that have accepted claims. */
  readonly targets: readonly AskableTarget[];
  readonly wantedOf: (target: string) => ReadonlySet<number>;
  readonly exampleOf: ExampleOf;
  /** The addresses of the ready proxies. */
  readonly proxies: readonly string[];
  readonly clusterDomain: string | undefined;
  /** The published questions, with their answers. */
  readonly published: readonly HeaderQuestion[];
  /** The answers that the proxies have reported since. */
  readonly reported: ReadonlyMap<string, AttributedAnswer>;
}

/**
 * The questions to publish, in a stable order. One proxy asks all questions of a namespace, so the namespace's budget
 * holds for the whole cluster. Without a proxy or a name, nothing can be asked yet.
 */
export function questionsOf(input: QuestionInput): HeaderQuestion[] {
  const before = new Map(input.published.map((question) => [questionKey(question), question]));
  const askers = new Map<string, string | undefined>();
  const askerFor = (namespace: string): string | undefined => {
    if (!askers.has(namespace)) askers.set(namespace, askerOf(namespace, input.proxies));
    return askers.get(namespace);
  };
  const targets = [...input.targets].sort((a, b) => (a.name < b.name ? -1 : 1));
  const questions = targets.flatMap((target) =>
    askedPorts(target, input.wantedOf(target.name)).flatMap((port) => {
      const namespace = namespaceOf(target);
      const key = questionKey({ target: target.name, port: port.port });
      const last = before.get(key);
      const asker = askerFor(namespace) ?? last?.asker;
      const name = serverName(input.exampleOf(target.name, last?.name)) ?? last?.name;
      if (asker === undefined || name === undefined) return [];
      const known = knownAnswer(last?.known, input.reported.get(key));
      return { ...placeOf(target, port, input.clusterDomain), name, namespace, asker, ...(known && { known }) };
    }),
  );
  return questions.slice(0, MAX_QUESTIONS);
}

function placeOf(target: AskableTarget, port: AskableTarget["ports"][number], clusterDomain: string | undefined) {
  const upstreamIPs = port.upstreamIPs ?? target.upstreamIPs;
  return {
    target: target.name,
    port: port.port,
    speaks: TLS_PORTS.includes(port.port) ? ("tls" as const) : ("http" as const),
    upstream: upstreamHost(target, clusterDomain),
    ...(upstreamIPs && { upstreamIPs }),
    upstreamPort: port.upstreamPort ?? port.port,
  };
}

function namespaceOf({ upstream }: AskableTarget): string {
  return "service" in upstream ? upstream.service.namespace : "";
}

/** Rendezvous hashing (Thaler and Ravishankar, 1998): if a proxy comes or goes, only its own namespaces move. */
function askerOf(namespace: string, proxies: readonly string[]): string | undefined {
  let best: { readonly address: string; readonly weight: string } | undefined;
  for (const address of proxies) {
    const weight = shortHash(`${namespace} ${address}`);
    if (best === undefined || weight > best.weight) best = { address, weight };
  }
  return best?.address;
}

/** The name itself, or for a wildcard a name that it covers. */
function serverName(name: string | undefined): string | undefined {
  return name?.replace(/^\*/, "switchback-asks");
}

/**
 * Publishes two answers if two proxies see different things: another proxy begins to ask a port, and its first answer
 * differs while the last one is still valid. A second asker per port would detect more, but cost twice as much.
 */
function knownAnswer(
  before: PublishedAnswer | undefined,
  reported: AttributedAnswer | undefined,
): PublishedAnswer | undefined {
  if (before === undefined || reported === undefined) return before ?? reported;
  const ageMs = Date.parse(reported.at) - Date.parse(before.at);
  const isSame = before.answer === reported.answer;
  if (isSame && ageMs < REFRESH_MS) return before;
  const { other: _other, ...last } = before;
  const differs = !isSame && last.by !== reported.by && last.answer !== "unknown" && ageMs <= ANSWER_HOLDS_MS;
  const { answer, at, by } = reported;
  return { answer, at, by, ...(differs && { other: last }) };
}
