import { isIPv6 } from "node:net";
import { resourcePath } from "#lib/kube/paths.ts";
import type { PublishersSettings } from "./config.ts";
import type { DnsRecord, PartLimits } from "./external-dns-parts.ts";

type Settings = PublishersSettings["externalDns"];

/** A kind of object that external-dns reads. */
export interface ExternalDnsKind {
  readonly apiVersion: string;
  readonly kind: Settings["kind"];
  /** Path of the objects of a namespace, or of one of them. */
  path(namespace: string, name?: string): string;
  readonly limits: PartLimits;
  /** The fields of an object beside its metadata, and the annotations that external-dns reads. */
  render(records: readonly DnsRecord[]): {
    readonly annotations: Readonly<Record<string, string>>;
    readonly body: object;
  };
  /** A version that changes whenever somebody changes the rendered fields. It may change at other times, too. */
  versionOf(metadata: { readonly generation?: number; readonly resourceVersion?: string }): string | undefined;
}

/** Bytes of a record beside its name and labels, for each address. */
const ENDPOINT_BYTES = 130;

/** `prefixes`: prefixes of the annotations that external-dns reads. */
export function kindOf(settings: Settings, prefixes: readonly string[]): ExternalDnsKind {
  return settings.kind === "Service" ? services(settings, prefixes) : dnsEndpoints(settings);
}

/** DNSEndpoint, a custom resource of external-dns (`--source=crd`). */
function dnsEndpoints({ ttlSeconds, recordLabels }: Settings): ExternalDnsKind {
  const labels = Object.keys(recordLabels).length === 0 ? {} : { labels: recordLabels };
  const labelBytes = JSON.stringify(labels).length;
  return {
    apiVersion: "externaldns.k8s.io/v1alpha1",
    kind: "DNSEndpoint",
    path: (namespace, name) =>
      resourcePath({ group: "externaldns.k8s.io", version: "v1alpha1", resource: "dnsendpoints", namespace, name }),
    limits: {
      byAddresses: false,
      names: 128,
      bytes: 200_000,
      bytesOf: ({ name, addresses }) => addresses.length * (name.length + ENDPOINT_BYTES + labelBytes),
    },
    render: (records) => ({
      annotations: {},
      body: {
        spec: {
          endpoints: records.flatMap(({ name, addresses }) =>
            [addresses.filter((address) => !isIPv6(address)), addresses.filter((address) => isIPv6(address))].flatMap(
              (targets, index) =>
                targets.length === 0
                  ? []
                  : {
                      dnsName: name,
                      recordType: index === 0 ? "A" : "AAAA",
                      recordTTL: ttlSeconds,
                      targets,
                      ...labels,
                    },
            ),
          ),
        },
      },
    }),
    // external-dns writes the status, which does not change the generation.
    versionOf: ({ generation }) => generation?.toString(),
  };
}

/** A headless Service without pods. Its annotations have the names and their addresses (`--source=service`). */
function services({ ttlSeconds }: Settings, prefixes: readonly string[]): ExternalDnsKind {
  return {
    apiVersion: "v1",
    kind: "Service",
    path: (namespace, name) => resourcePath({ version: "v1", resource: "services", namespace, name }),
    // An object has at most 256 KiB of annotations, which contain each name once for each prefix.
    limits: { byAddresses: true, names: 256, bytes: 200_000 / prefixes.length, bytesOf: ({ name }) => name.length + 1 },
    render: (records) => {
      const annotations: Record<string, string> = {};
      for (const prefix of prefixes) {
        annotations[`${prefix}hostname`] = records.map(({ name }) => name).join(",");
        annotations[`${prefix}target`] = (records[0]?.addresses ?? []).join(",");
        annotations[`${prefix}ttl`] = String(ttlSeconds);
      }
      // Nobody needs the port, but API servers before 1.20 demand one.
      return {
        annotations,
        body: { spec: { type: "ClusterIP", clusterIP: "None", ports: [{ name: "none", port: 1 }] } },
      };
    },
    versionOf: ({ resourceVersion }) => resourceVersion,
  };
}
