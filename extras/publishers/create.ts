import type { Config } from "#lib/config/schema.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { PublishersSettings } from "./config.ts";
import { CorednsPublisher } from "./coredns.ts";
import { CorednsImportPublisher } from "./coredns-import.ts";
import { ExternalDnsPublisher } from "./external-dns.ts";
import type { PublisherName } from "./names.ts";
import type { Publisher } from "./publisher.ts";

/** What a publisher is made from. A publisher that only removes what it wrote needs no `sources`. */
interface PublisherConfig extends Partial<Pick<Config, "sources">> {
  readonly publishers: PublishersSettings;
  readonly namespace: string;
}

/** Makes each publisher, by its name. */
const FACTORIES: Readonly<Record<PublisherName, (config: PublisherConfig, client: KubeClient) => Publisher>> = {
  "coredns-import": ({ publishers }, client) => new CorednsImportPublisher(publishers.corednsImport, client),
  coredns: ({ publishers }, client) => new CorednsPublisher(publishers.coredns, client),
  "external-dns": ({ publishers, namespace, sources }, client) => {
    const annotationPrefixes = sources?.services.annotationPrefixes;
    return new ExternalDnsPublisher(publishers.externalDns, { namespace, client, annotationPrefixes });
  },
};

export function createPublisher(name: PublisherName, config: PublisherConfig, client: KubeClient): Publisher {
  return FACTORIES[name](config, client);
}
