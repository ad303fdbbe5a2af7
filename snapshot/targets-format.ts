import { z } from "zod";
import { shortHash } from "../hostmap/hash.ts";
import type { Reason } from "../hostmap/types.ts";
import type { Listener } from "./listeners.ts";

/** The ConfigMap in which the controller publishes what the proxies listen on, and its only key. */
export const TARGETS_NAME = "switchback-targets";
export const TARGETS_KEY = "targets.json";

/** Raised when a reader of the earlier format would go wrong. A proxy keeps its last good targets when it reads another version. */
const VERSION = 1;
/** Far above what is ever written, and below the limit of a ConfigMap. Longer text is not ours and is not parsed. */
const MAX_BYTES = 1_000_000;

const port = z.int().min(1).max(65_535);
const targetSchema = z.object({
  name: z.string().regex(/^[a-z0-9]([-a-z0-9]{0,50}[a-z0-9])?$/),
  upstream: z
    .string()
    .min(1)
    .max(254)
    .regex(/^[0-9A-Za-z_:.-]+$/),
  ports: z
    .array(z.object({ port, listenPort: port, upstreamPort: port, protocol: z.enum(["v1", "v2", "none"]) }))
    .min(1)
    .max(200),
  clusterIPs: z.array(z.union([z.ipv4(), z.ipv6()])).max(2),
  unusedSince: z.iso.datetime().optional(),
});

const documentSchema = z
  .object({ version: z.literal(VERSION), revision: z.string(), targets: z.array(targetSchema).max(2_000) })
  .refine(({ targets }) => isDistinct(targets.map(({ name }) => name)), "two targets have one name")
  .refine(
    ({ targets }) => isDistinct(targets.flatMap(({ ports }) => ports.map(({ listenPort }) => listenPort))),
    "two listeners have one port",
  );

/** One relayed target as it is published. */
export interface PublishedTarget {
  readonly name: string;
  /** Host name or IP literal. */
  readonly upstream: string;
  readonly ports: ReadonlyArray<Pick<Listener, "port" | "listenPort" | "upstreamPort" | "protocol">>;
  /** Of its front Service, once known. */
  readonly clusterIPs: readonly string[];
  /** Since when no name is mapped to it, RFC 3339; absent while one is. */
  readonly unusedSince?: string | undefined;
}

export interface PublishedTargets {
  readonly revision: string;
  readonly targets: readonly PublishedTarget[];
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

/** Reads a document that somebody may have edited by hand. A Reason says what is wrong with it. */
export function parseTargets(text: string): PublishedTargets | Reason {
  if (text.length > MAX_BYTES) return malformed(`has ${text.length} bytes; at most ${MAX_BYTES} are read`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return malformed(`does not parse: ${String(error)}`);
  }
  const result = documentSchema.safeParse(value);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  return malformed(`${issue?.path.map(String).join(".") || "(top)"}: ${issue?.message ?? "is wrong"}`);
}

function malformed(text: string): Reason {
  return { code: "targets-malformed", text: `${TARGETS_KEY} ${text}` };
}

/** What a proxy listens on for published targets. */
export function listenersOfPublished({ targets }: Pick<PublishedTargets, "targets">): Listener[] {
  return targets.flatMap(({ name, upstream, ports }) => ports.map((entry) => ({ target: name, upstream, ...entry })));
}

function isDistinct(values: readonly unknown[]): boolean {
  return new Set(values).size === values.length;
}
