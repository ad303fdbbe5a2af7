import * as v from "valibot";
import { shortHash } from "#hostmap/hash.ts";
import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import type { Listener } from "./listeners.ts";
import { addresses, describeFlaw, isTime, parseDocument, port, targetName, upstreamName } from "./targets-fields.ts";
import { TARGETS_KEY } from "./targets-name.ts";

/**
 * Raised when a reader of the earlier format would go wrong. A proxy keeps its last good targets when it reads
 * another version. A field that a reader may ignore is added without raising it.
 */
const VERSION = 1;
/** Far above what is ever written, and below the limit of a ConfigMap. Longer text is not ours and is not parsed. */
const MAX_BYTES = 1_000_000;

const portSchema = object({
  port,
  listenPort: port,
  upstreamPort: port,
  protocol: v.picklist(["v1", "v2", "none"]),
  upstreamIPs: v.optional(addresses),
});
const targetSchema = object({
  name: targetName,
  upstream: upstreamName,
  ports: v.pipe(v.array(portSchema), v.minLength(1), v.maxLength(MAX_TARGET_PORTS)),
  upstreamIPs: v.optional(addresses),
  clusterIPs: addresses,
  unusedSince: v.optional(v.pipe(v.string(), v.check(isTime))),
});

/** The document without its targets, which are read one by one: a bad one costs that one. */
const documentSchema = object({ version: v.literal(VERSION), revision: v.string(), targets: v.array(v.unknown()) });
/** Limit of the targets that are read. */
const MAX_TARGETS = 2_000;
/** Refused targets that are described; the others are counted. */
const MAX_DESCRIBED = 5;

interface PublishedPort extends Pick<Listener, "port" | "listenPort" | "upstreamPort" | "protocol"> {
  /** Of a port that another Service has at the target's address: the ClusterIPs of that one, as above. */
  readonly upstreamIPs?: readonly string[] | undefined;
}

/** One relayed target as it is published. */
export interface PublishedTarget {
  readonly name: string;
  /** Host name or IP literal. With `upstreamIPs` nobody looks it up; the doctor shows it. */
  readonly upstream: string;
  /**
   * Of each discovered target: the ClusterIPs that its Service has now. The proxies relay to nothing else and look
   * up no name, because a tenant decides what it resolves to. Empty: the Service is gone or has another type;
   * proxies do not listen, but the target keeps its listen ports and front Service. Absent: a configured target.
   */
  readonly upstreamIPs?: readonly string[] | undefined;
  readonly ports: readonly PublishedPort[];
  /** Of its front Service, once known. */
  readonly clusterIPs: readonly string[];
  /** Since when no name is mapped to it, RFC 3339; absent while one is. */
  readonly unusedSince?: string | undefined;
}

export interface PublishedTargets {
  readonly revision: string;
  readonly targets: readonly PublishedTarget[];
  /** Why targets of the document were left out, or stayed as they were before. */
  readonly refused?: readonly Reason[];
}

/** The text of `targets.json`, and its revision. Equal targets give equal texts. */
export function renderTargets(targets: readonly PublishedTarget[]): {
  readonly text: string;
  readonly targetsRevision: string;
} {
  const targetsRevision = shortHash(JSON.stringify(targets));
  const document = { version: VERSION, revision: targetsRevision, targets };
  return { targetsRevision, text: `${JSON.stringify(document, null, 1)}\n` };
}

/**
 * Reads a document that somebody may have edited by hand. A bad target costs that target, and stays as it is in
 * `last` if it is there; a Reason says what is wrong with the document as a whole.
 */
export function parseTargets(text: string, last?: Pick<PublishedTargets, "targets">): PublishedTargets | Reason {
  const { value, problem } = parseDocument(text, MAX_BYTES, documentSchema);
  if (problem !== undefined) return malformed(problem);
  const { targets, refused } = readEach(value.targets, last?.targets ?? []);
  const [first] = refused;
  if (first === undefined) return { ...value, targets };
  return targets.length === 0 ? first : { ...value, targets, refused: describedOnly(refused) };
}

/** Reads the targets in order: of two with the same name or listen port the first one stays. */
function readEach(items: readonly unknown[], last: readonly PublishedTarget[]) {
  const targets: PublishedTarget[] = [];
  const refused: Reason[] = [];
  const names = new Set<string>();
  const ports = new Set<number>();
  const take = (target: PublishedTarget): string | undefined => {
    const listenPorts = target.ports.map(({ listenPort }) => listenPort);
    if (targets.length >= MAX_TARGETS) return `more than ${MAX_TARGETS} targets`;
    if (names.has(target.name)) return "two targets have one name";
    if (new Set(listenPorts).size < listenPorts.length || listenPorts.some((each) => ports.has(each)))
      return "two listeners have one port";
    names.add(target.name);
    for (const each of listenPorts) ports.add(each);
    targets.push(target);
    return undefined;
  };
  const bad: unknown[] = [];
  for (const [index, item] of items.entries()) {
    const { value, flaw } = attempt(targetSchema, item);
    const problem = flaw === undefined ? take(value) : describeFlaw(flaw);
    if (problem === undefined) continue;
    bad.push(item);
    refused.push(malformed(`targets.${index}.${problem}`));
  }
  const lastByName = new Map(last.map((target) => [target.name, target]));
  for (const item of bad) {
    const before = lastByName.get(nameOf(item));
    if (before !== undefined) take(before);
  }
  return { targets, refused };
}

function describedOnly(refused: readonly Reason[]): readonly Reason[] {
  const rest = refused.length - MAX_DESCRIBED;
  return rest <= 0 ? refused : [...refused.slice(0, MAX_DESCRIBED), malformed(`${rest} more targets like that`)];
}

function nameOf(item: unknown): string {
  return typeof item === "object" && item !== null && "name" in item && typeof item.name === "string" ? item.name : "";
}

function malformed(text: string): Reason {
  return { code: "targets-malformed", text: `${TARGETS_KEY} ${text}` };
}

/** What a proxy listens on for published targets. */
export function listenersOfPublished({ targets }: Pick<PublishedTargets, "targets">): Listener[] {
  return targets.flatMap(({ name, upstream, upstreamIPs: ofTarget, ports }) =>
    ports.flatMap(({ upstreamIPs = ofTarget, ...entry }) =>
      upstreamIPs?.length === 0 ? [] : [{ target: name, upstream, ...(upstreamIPs && { upstreamIPs }), ...entry }],
    ),
  );
}
