import type { Reason } from "#hostmap/types.ts";
import { COREFILE_KEY, type PublishersSettings } from "./config.ts";
import { type ConfigMapClient, ConfigMapKey, lastWriter, type ReadConfigMap } from "./config-map-key.ts";
import { BlocksRenderer, outcomeOf, refused } from "./coredns-file.ts";
import { parseCorefile } from "./corefile.ts";
import { dnsReaders } from "./dns-readers.ts";
import { noReload, unreadable } from "./imported-zones.ts";
import { markedBlock, splitMarked } from "./marked-block.ts";
import type { Presence, Publisher, PublishOutcome, Readers } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";
import { type ServerZones, serverZones } from "./server-zones.ts";

const NAME = "coredns";

/** Publishes in the cluster's Corefile. Our server blocks are at its beginning, between two marker lines. */
export class CorednsPublisher implements Publisher {
  readonly name = NAME;
  readonly readers: Readers;
  readonly #target: ConfigMapKey;
  readonly #renderer: BlocksRenderer;
  /** What this process wrote last. */
  #written: string | undefined;

  constructor(settings: PublishersSettings["coredns"], client: ConfigMapClient, readers: Readers = dnsReaders(NAME)) {
    const { namespace, configMap } = settings;
    this.readers = readers;
    this.#target = new ConfigMapKey(client, { namespace, name: configMap, key: COREFILE_KEY });
    this.#renderer = new BlocksRenderer({ publisher: NAME, first: true });
  }

  get place(): string {
    return this.#target.place;
  }

  async original(): Promise<string | undefined> {
    return (await this.#read())?.text;
  }

  async presence(): Promise<Presence> {
    const found = await this.#read();
    if (found === undefined) return { kind: "taken-back" };
    const { block } = splitMarked(found.text, NAME);
    const isThere = block !== undefined && (this.#written === undefined || block === this.#written);
    return isThere ? { kind: "as-written" } : { kind: "taken-back", by: lastWriter(found.object, this.#target.key) };
  }

  async publish(map: PublisherMap): Promise<PublishOutcome> {
    const found = await this.#read();
    if (found === undefined) return refused({ code: "publisher-no-corefile", text: `there is no ${this.place}` });
    const { object, text } = found;
    const { before, block, after } = splitMarked(text, NAME);
    const rest = before + after;
    const zones = this.#zonesOf(object, rest);
    if ("code" in zones) return refused(zones);
    const blocks = this.#renderer.render(map, zones, object.bytes - Buffer.byteLength(block ?? ""));
    if ("code" in blocks) return refused(blocks);
    const written = markedBlock(blocks.text, NAME, `${blocks.names} names, revision ${map.revision}. Do not edit.`);
    if (written + rest !== text) await this.#target.set(object, written + rest);
    this.#written = written;
    return outcomeOf(blocks);
  }

  async isThere(): Promise<boolean> {
    const found = await this.#read();
    return found !== undefined && splitMarked(found.text, NAME).block !== undefined;
  }

  async remove(): Promise<void> {
    const found = await this.#read();
    this.#written = undefined;
    if (found === undefined) return;
    const { before, block, after } = splitMarked(found.text, NAME);
    if (block !== undefined) await this.#target.set(found.object, before + after);
    await this.#target.disown();
  }

  #zonesOf(object: ReadConfigMap, corefile: string): ServerZones | Reason {
    const owner = ownerOf(object);
    if (owner !== undefined) {
      const text = `the ${this.place} belongs to ${owner}, which would undo a change`;
      return { code: "publisher-corefile-owned", text };
    }
    const parsed = parseCorefile(corefile);
    if (typeof parsed === "string") return unreadable(this.place, parsed);
    const zones = serverZones(parsed);
    return zones.reloads ? zones : noReload(this.place);
  }

  async #read(): Promise<{ readonly object: ReadConfigMap; readonly text: string } | undefined> {
    const object = await this.#target.read();
    const text = object?.data[this.#target.key];
    return object === undefined || text === undefined ? undefined : { object, text };
  }
}

/**
 * The owner that keeps the whole object unchanged at all times; undefined if there is none. Helm and GitOps tools
 * only restore it now and then, which a publisher detects.
 */
function ownerOf({ metadata }: ReadConfigMap): string | undefined {
  const controller = metadata.ownerReferences?.find((reference) => reference.controller);
  if (controller !== undefined) return `${controller.kind} ${controller.name}`;
  const mode = metadata.labels?.["addonmanager.kubernetes.io/mode"];
  return mode === "Reconcile" ? "the addon manager" : undefined;
}
