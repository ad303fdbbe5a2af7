import { shortHash } from "#hostmap/hash.ts";
import type { Reason } from "#hostmap/types.ts";
import { EXTERNAL_DNS_PREFIXES } from "#lib/config/defaults.ts";
import { ifFound, statusOf } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import type { PublishersSettings } from "./config.ts";
import { type ExternalDnsKind, kindOf } from "./external-dns-kinds.ts";
import { Divider, MAX_PARTS, type Part, recordsOf } from "./external-dns-parts.ts";
import type { Publisher, PublishOutcome } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import { PUBLISHER_LABEL } from "./publisher-state.ts";

type ExternalDnsClient = Pick<KubeClient, "list" | "create" | "apply" | "delete">;
type Metadata = ObjectMeta & { readonly generation?: number };
interface Listed {
  readonly metadata: Metadata;
}

export const EXTERNAL_DNS = "external-dns";
/** Selects all our objects, and no others. */
const SELECTOR = `${PUBLISHER_LABEL}=${EXTERNAL_DNS}`;
/** Annotation with the key of the part that an object contains. */
const PART_KEY = "switchback.dev/part";
const NAME_PREFIX = "switchback-names-";
const FIELD_MANAGER = "switchback-external-dns";

/** An object as it was last written. */
interface Written {
  readonly hash: string;
  readonly version: string | undefined;
}

/** Publishes the map as objects in our own namespace, from which external-dns makes DNS records. */
export class ExternalDnsPublisher implements Publisher {
  readonly name = EXTERNAL_DNS;
  /** A write only reaches external-dns, which itself waits for more changes. */
  readonly minIntervalMs = 0;
  readonly writesRecords = true;
  readonly #settings: PublishersSettings["externalDns"];
  readonly #namespace: string;
  readonly #client: ExternalDnsClient;
  readonly #kind: ExternalDnsKind;
  readonly #divider: Divider;
  /** The objects as they were last written, by name. */
  readonly #written = new Map<string, Written>();

  constructor(
    settings: PublishersSettings["externalDns"],
    {
      namespace,
      client,
      annotationPrefixes = EXTERNAL_DNS_PREFIXES,
    }: {
      readonly namespace: string;
      readonly client: ExternalDnsClient;
      readonly annotationPrefixes?: readonly string[] | undefined;
    },
  ) {
    this.#settings = settings;
    this.#namespace = namespace;
    this.#client = client;
    this.#kind = kindOf(settings, annotationPrefixes);
    this.#divider = new Divider(this.#kind.limits);
  }

  get place(): string {
    return `${this.#kind.kind} objects of the namespace ${this.#namespace}`;
  }

  async publish(map: PublisherMap): Promise<PublishOutcome> {
    const listed = await this.#list();
    if (listed === undefined) return { names: 0, leftOut: map.entries.length, problem: noDefinition(), refused: true };
    const names = namesByPart(listed);
    if (this.#written.size === 0) for (const { metadata } of listed) this.#divider.remember(partOf(metadata) ?? "");
    const records = recordsOf(map.entries);
    const { parts, leftOut } = this.#divider.divide(records);
    const present = new Map(listed.map(({ metadata }) => [metadata.name ?? "", metadata]));
    const placed = placeParts(parts, names, new Set(present.keys()));
    let foreign = 0;
    // New objects are written first: a name that moves is briefly in both objects, and never in none.
    for (const { name, part } of placed.toSorted((a, b) => Number(present.has(a.name)) - Number(present.has(b.name)))) {
      if (!(await this.#write(name, part, present.get(name)))) foreign += part.records.length;
    }
    const wanted = new Set(placed.map(({ name }) => name));
    for (const name of present.keys()) if (!wanted.has(name)) await this.#delete(name);
    const problem = problemOf(leftOut, foreign);
    const missing = leftOut + foreign;
    return { names: records.length - missing, leftOut: missing, ...(problem && { problem }) };
  }

  async isThere(): Promise<boolean> {
    return ((await this.#list()) ?? []).length > 0;
  }

  /**
   * Deletes all our objects, and waits until external-dns has had time to notice: the caller then deletes what the
   * names lead to.
   */
  async remove(): Promise<void> {
    const listed = (await this.#list()) ?? [];
    for (const { metadata } of listed) await this.#delete(metadata.name ?? "");
    if (listed.length > 0) await pause(this.#settings.removeWaitSeconds * 1000);
  }

  /** Undefined if the cluster does not know this kind. */
  async #list(): Promise<readonly Listed[] | undefined> {
    const query = { labelSelector: SELECTOR };
    const path = this.#kind.path(this.#namespace);
    return (await ifFound(this.#client.list<Listed>(path, query, { accept: METADATA_LIST })))?.items;
  }

  /** Writes an object unless it is unchanged since our last write. False if somebody else's object has this name. */
  async #write(name: string, part: Part, before: Metadata | undefined): Promise<boolean> {
    const { path, versionOf } = this.#kind;
    const object = this.#objectOf(name, part);
    const hash = shortHash(JSON.stringify(object));
    const written = this.#written.get(name);
    if (before !== undefined && written?.hash === hash && written.version === versionOf(before)) return true;
    const options = { fieldManager: FIELD_MANAGER };
    try {
      const { metadata } =
        before === undefined
          ? await this.#client.create<Listed>(path(this.#namespace), object, options)
          : await this.#client.apply<Listed>(path(this.#namespace, name), object, { ...options, force: true });
      this.#written.set(name, { hash, version: versionOf(metadata) });
      return true;
    } catch (error) {
      if (before === undefined && statusOf(error) === 409) return false;
      throw error;
    }
  }

  #objectOf(name: string, { key, records }: Part): object {
    const { apiVersion, kind, render } = this.#kind;
    const { labels, annotations } = this.#settings;
    const rendered = render(records);
    return {
      apiVersion,
      kind,
      metadata: {
        name,
        namespace: this.#namespace,
        labels: { ...labels, "app.kubernetes.io/name": "switchback", [PUBLISHER_LABEL]: EXTERNAL_DNS },
        annotations: { ...annotations, ...rendered.annotations, [PART_KEY]: key },
      },
      ...rendered.body,
    };
  }

  async #delete(name: string): Promise<void> {
    this.#written.delete(name);
    await ifFound(this.#client.delete(this.#kind.path(this.#namespace, name)));
  }
}

/** The names of the existing objects, by the part that each contains. */
function namesByPart(listed: readonly Listed[]): Map<string, string> {
  return new Map(
    listed.flatMap(({ metadata }) => {
      const key = partOf(metadata);
      return key === undefined ? [] : [[shardOf(key), metadata.name ?? ""] as const];
    }),
  );
}

function partOf({ annotations }: Metadata): string | undefined {
  return annotations?.[PART_KEY];
}

/** The part without the number of parts: a part keeps its object when that number changes. */
function shardOf(key: string): string {
  const [group, , shard] = key.split("/");
  return `${group}/${shard}`;
}

/** Gives each part an object: the one that it has, else the one that it prefers, else the next that is free. */
function placeParts(
  parts: readonly Part[],
  existing: ReadonlyMap<string, string>,
  present: ReadonlySet<string>,
): Array<{ readonly name: string; readonly part: Part }> {
  const kept = parts.flatMap((part) => {
    const name = existing.get(shardOf(part.key));
    return name === undefined ? [] : [{ name, part }];
  });
  const used = new Set([...present, ...kept.map(({ name }) => name)]);
  const placed = kept.map(({ part }) => part);
  const others = parts.filter((part) => !placed.includes(part));
  return [
    ...kept,
    ...others.map((part) => {
      const name = freeName(part.preferred, used) ?? freeName(part.preferred, new Set(kept.map((each) => each.name)));
      used.add(name ?? "");
      return { name: name ?? nameOf(part.preferred), part };
    }),
  ];
}

function freeName(preferred: number, used: ReadonlySet<string>): string | undefined {
  for (let step = 0; step < MAX_PARTS; step += 1) {
    const name = nameOf((preferred + step) % MAX_PARTS);
    if (!used.has(name)) return name;
  }
  return undefined;
}

function nameOf(index: number): string {
  return `${NAME_PREFIX}${index}`;
}

function noDefinition(): Reason {
  const text = "the cluster does not know DNSEndpoint (externaldns.k8s.io/v1alpha1): install external-dns' definitions";
  return { code: "external-dns-no-crd", text };
}

function problemOf(leftOut: number, foreign: number): Reason | undefined {
  if (foreign > 0) {
    const text = `${foreign} names are left out: somebody else's object has one of our names (${NAME_PREFIX}*)`;
    return { code: "external-dns-foreign", text };
  }
  if (leftOut === 0) return undefined;
  return { code: "publisher-no-room", text: `${leftOut} names are left out: their objects are full` };
}
