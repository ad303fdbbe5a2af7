import { COREFILE_KEY, type PublishersSettings } from "./config.ts";
import { type ConfigMapClient, ConfigMapKey, lastWriter } from "./config-map-key.ts";
import { BlocksRenderer, outcomeOf, refused } from "./coredns-file.ts";
import { dnsReaders } from "./dns-readers.ts";
import { importedZones } from "./imported-zones.ts";
import { markedBlock, splitMarked } from "./marked-block.ts";
import type { Presence, Publisher, PublishOutcome, Readers } from "./publisher.ts";
import type { PublisherMap } from "./publisher-map.ts";

const NAME = "coredns-import";

/**
 * Publishes in a file that the cluster's Corefile imports. The file is a key of the ConfigMap with the imported
 * files. It contains our server blocks, or plugins if the Corefile imports it inside a server block.
 */
export class CorednsImportPublisher implements Publisher {
  readonly name = NAME;
  readonly readers: Readers;
  readonly #target: ConfigMapKey;
  /** The key with the Corefile, which is only read. */
  readonly #importer: ConfigMapKey;
  readonly #renderer: BlocksRenderer;
  /** What this process wrote last. */
  #written: string | undefined;

  constructor(
    settings: PublishersSettings["corednsImport"],
    client: ConfigMapClient,
    readers: Readers = dnsReaders(NAME),
  ) {
    const { namespace, configMap, key, corefile } = settings;
    this.readers = readers;
    this.#target = new ConfigMapKey(client, { namespace, name: configMap, key });
    this.#importer = new ConfigMapKey(client, { namespace, name: corefile, key: COREFILE_KEY });
    this.#renderer = new BlocksRenderer({ publisher: NAME, first: false });
  }

  get place(): string {
    return this.#target.place;
  }

  async presence(): Promise<Presence> {
    const object = await this.#target.read();
    const text = object?.data[this.#target.key];
    const isThere = text !== undefined && (this.#written === undefined || text === this.#written);
    return isThere
      ? { kind: "as-written" }
      : { kind: "taken-back", by: object && lastWriter(object, this.#target.key) };
  }

  async publish(map: PublisherMap): Promise<PublishOutcome> {
    const target = this.#target;
    const object = await target.read();
    const text = object?.data[target.key];
    if (text !== undefined && !isOurs(text)) {
      return refused({
        code: "publisher-key-taken",
        text: `the ${target.place} is somebody else's: choose another key`,
      });
    }
    const corefile = (await this.#importer.read())?.data[this.#importer.key];
    const zones = importedZones({
      corefilePlace: this.#importer.place,
      filesPlace: target.place,
      corefile,
      files: object?.data ?? {},
      own: target.key,
    });
    if ("code" in zones) return refused(zones);
    const others = (object?.bytes ?? 0) - Buffer.byteLength(text ?? "");
    const blocks = this.#renderer.render(map, zones, others, zones.isInside);
    if ("code" in blocks) return refused(blocks);
    const written = markedBlock(blocks.text, NAME, `${blocks.names} names, revision ${map.revision}. Do not edit.`);
    if (object === undefined) await target.create(written);
    else if (text !== written) await target.set(object, written);
    this.#written = written;
    return outcomeOf(blocks);
  }

  async isThere(): Promise<boolean> {
    const text = (await this.#target.read())?.data[this.#target.key];
    return text !== undefined && isOurs(text);
  }

  async remove(): Promise<void> {
    const object = await this.#target.read();
    const text = object?.data[this.#target.key];
    this.#written = undefined;
    if (object === undefined || (text !== undefined && !isOurs(text))) return;
    await this.#target.unset(object);
    await this.#target.disown();
  }
}

function isOurs(text: string): boolean {
  const { before, block, after } = splitMarked(text, NAME);
  return block !== undefined && before + after === "";
}
