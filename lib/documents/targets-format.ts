import * as v from "valibot";
import { shortHash } from "#hostmap/hash.ts";
import type { Reason } from "#hostmap/types.ts";
import { MAX_TARGET_PORTS } from "#lib/config/defaults.ts";
import { host, ip, label, port } from "#lib/config/values.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt, renderFlaw } from "#lib/errors/validation.ts";
import { HEADER_ANSWERS } from "./header-answers.ts";
import type { Listener } from "./listeners.ts";

/** The ConfigMap in which the controller publishes what the proxies relay and which ports they ask, and its key. */
export const TARGETS_NAME = "switchback-targets";
export const TARGETS_KEY = "targets.json";

/**
 * Raised when a reader of the earlier format would fail or misread the document. A proxy keeps its last good targets
 * when it reads another version. A field that readers may ignore does not need a new version.
 */
const VERSION = 1;
/** Much more than is ever written, and below the limit of a ConfigMap. Longer text is not ours and is not parsed. */
const MAX_BYTES = 1_000_000;

const upstreamIPs = v.pipe(v.array(ip), v.maxLength(2), v.readonly());
export const targetName = v.pipe(label, v.maxLength(52));

const portSchema = object({
  port,
  listenPort: port,
  upstreamPort: port,
  protocol: v.picklist(["v1", "v2", "none"]),
  /** Set if another Service has this port at the target's address: the ClusterIPs of that Service. */
  upstreamIPs: v.optional(upstreamIPs),
});

/** A port that the proxies ask whether it expects a PROXY header. It may have no listener. */
const askSchema = object({
  /** The port that pods call. */
  port,
  speaks: v.picklist(["http", "tls"]),
  /** A host that claims the target. It is the server name in the ClientHello. */
  name: v.pipe(v.string(), v.maxLength(253), v.regex(/^[a-z0-9.-]+$/)),
  upstreamPort: port,
  /** As for a port. */
  upstreamIPs: v.optional(upstreamIPs),
  /** The answer that decides the port's protocol. Missing: no answer decides yet. */
  answer: v.optional(v.picklist(HEADER_ANSWERS)),
});
export type PublishedAsk = v.InferOutput<typeof askSchema>;

/** Much more than a cluster has. */
const MAX_PROXIES = 10_000;

/** One target, as published. */
const targetSchema = object({
  name: targetName,
  /** The namespace of the target's Service. Missing: a configured host. */
  namespace: v.optional(v.pipe(v.string(), v.maxLength(63))),
  /** Host name or IP literal. With `upstreamIPs` nobody looks it up, but the doctor shows it. */
  upstream: v.pipe(host, v.maxLength(254)),
  /**
   * Set for each discovered target: the current ClusterIPs of its Service. The proxies relay only to these and look
   * up no name, because a tenant decides what a name resolves to. Empty: the Service is gone or has another type.
   * Then proxies do not listen, but the target keeps its listen ports and front Service. Missing: a configured
   * target.
   */
  upstreamIPs: v.optional(upstreamIPs),
  /** Empty: nobody relays the target. Its names lead to its own Service, or are not mapped yet. */
  ports: v.pipe(v.array(portSchema), v.maxLength(MAX_TARGET_PORTS), v.readonly()),
  /** The ports to ask. Missing: the protocols are known without an answer. */
  ask: v.optional(v.pipe(v.array(askSchema), v.maxLength(MAX_TARGET_PORTS), v.readonly())),
  /**
   * The addresses of its names: the ClusterIPs of its front Service, if known, or of the target's Service. Empty: no
   * name leads to it yet.
   */
  clusterIPs: upstreamIPs,
  /** Since when no name has been mapped to it, RFC 3339. Missing while a name is mapped to it. */
  unusedSince: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => !Number.isNaN(Date.parse(text))),
    ),
  ),
});
export type PublishedTarget = Readonly<v.InferOutput<typeof targetSchema>>;

/** Maximum number of targets that are read. */
const MAX_TARGETS = 2_000;

/** The document. The controller writes again what somebody else has broken, so nobody reads a part of it. */
export const documentSchema = object({
  version: v.literal(VERSION),
  revision: v.string(),
  /** The addresses of the ready proxies, sorted. They share the limits of what they ask, and take turns. */
  proxies: v.optional(v.pipe(v.array(ip), v.maxLength(MAX_PROXIES), v.readonly())),
  targets: v.pipe(
    v.array(targetSchema),
    v.maxLength(MAX_TARGETS),
    v.check((targets) => areUnique(targets.map(({ name }) => name)), "two targets have one name"),
    v.check(
      (targets) => areUnique(targets.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort))),
      "two listeners have one port",
    ),
    v.readonly(),
  ),
});
const textSchema = v.pipe(v.string(), v.maxLength(MAX_BYTES), v.parseJson({}, "is not JSON"), documentSchema);
export type PublishedTargets = Omit<v.InferOutput<typeof documentSchema>, "version">;

function areUnique(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}

/** Returns the text of `targets.json`, and its revision. Equal targets and proxies give equal texts. */
export function renderTargets(
  targets: readonly PublishedTarget[],
  proxies?: readonly string[],
): {
  readonly text: string;
  readonly targetsRevision: string;
} {
  const targetsRevision = shortHash(JSON.stringify(targets));
  const document = { version: VERSION, revision: targetsRevision, ...(proxies !== undefined && { proxies }), targets };
  return { targetsRevision, text: `${JSON.stringify(document, null, 1)}\n` };
}

/** Parses a document that somebody may have edited by hand. A Reason says what is wrong with it. */
export function parseTargets(text: string): PublishedTargets | Reason {
  const { value, flaw } = attempt(textSchema, text);
  return flaw === undefined ? value : { code: "targets-malformed", text: `${TARGETS_KEY} ${renderFlaw(flaw)}` };
}

/** Returns the listeners of a proxy for published targets. */
export function listenersOfPublished({ targets }: Pick<PublishedTargets, "targets">): Listener[] {
  return targets.flatMap(({ name, upstream, upstreamIPs: ofTarget, ports }) =>
    ports.flatMap(({ upstreamIPs = ofTarget, ...entry }) =>
      upstreamIPs?.length === 0 ? [] : [{ target: name, upstream, ...(upstreamIPs && { upstreamIPs }), ...entry }],
    ),
  );
}

/** A port to ask, with the address of its target. */
export interface HeaderQuestion extends PublishedAsk {
  readonly target: string;
  /** Empty for a configured host. Questions of one namespace share a limit. */
  readonly namespace: string;
  /** The address to ask, as in `Listener`. */
  readonly upstream: string;
}

/** Returns the questions of published targets. */
export function questionsOfPublished({ targets }: Pick<PublishedTargets, "targets">): HeaderQuestion[] {
  return targets.flatMap(({ name, namespace = "", upstream, upstreamIPs: ofTarget, ask = [] }) =>
    ask.flatMap(({ upstreamIPs = ofTarget, ...entry }) => {
      const addressed = { ...entry, ...(upstreamIPs && { upstreamIPs }) };
      return upstreamIPs?.length === 0 ? [] : [{ ...addressed, target: name, namespace, upstream }];
    }),
  );
}
