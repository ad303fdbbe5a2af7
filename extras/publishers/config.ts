import * as v from "valibot";
import type { Section } from "#lib/config/sections.ts";
import { bindPort, described, label, seconds, secondsFrom, section, setting } from "#lib/config/values.ts";
import { integer, record, strictObject } from "#lib/errors/schemas.ts";

// Settings of the publishers. Each publisher is a process that gives the map to readers other than opted-in pods.

const objectName = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be the name of a Kubernetes object"),
);
const dataKey = v.pipe(v.string(), v.regex(/^[-._a-zA-Z0-9]{1,253}$/, "must be a key of a ConfigMap"));

const enabled = v.optional(v.boolean(), false);
const ttlSeconds = setting(
  secondsFrom(1),
  5,
  "TTL of mapped names: how long a client that caches may keep an address.",
);
const namespace = v.optional(label, "kube-system");

const corednsImportSchema = strictObject({
  enabled: described(
    enabled,
    "Publish the names to everybody, in a file that the cluster's CoreDNS imports; the ConfigMap's other keys are " +
      "not touched.",
  ),
  namespace: described(namespace, "Namespace of both ConfigMaps."),
  configMap: setting(
    objectName,
    "coredns-custom",
    "The ConfigMap whose keys the Corefile imports. It is created if it does not exist.",
  ),
  key: setting(
    dataKey,
    "switchback.server",
    "The key that is written. The Corefile imports it outside of its server blocks, as `*.server`, or inside of the " +
      "one that answers everything, as `*.override`.",
  ),
  corefile: section(
    strictObject({
      configMap: setting(objectName, "coredns", "The ConfigMap with the cluster's Corefile, which is only read."),
      key: setting(dataKey, "Corefile", "Its key."),
    }),
  ),
  ttlSeconds,
});

const corednsSchema = strictObject({
  enabled: described(
    enabled,
    "Publish the names to everybody, in the cluster's Corefile itself, for clusters whose Corefile imports nothing.",
  ),
  namespace: described(namespace, "Namespace of the ConfigMap."),
  configMap: setting(objectName, "coredns", "The ConfigMap with the cluster's Corefile."),
  key: setting(dataKey, "Corefile", "The key that is written."),
  ttlSeconds,
});

const metadataKeys = record(
  v.pipe(v.string(), v.minLength(1), v.maxLength(317)),
  v.pipe(v.string(), v.maxLength(1_000)),
);

const externalDnsSchema = strictObject({
  enabled: described(
    enabled,
    "Publish the names as objects in the namespace of Switchback that external-dns makes DNS records from.",
  ),
  kind: setting(
    v.picklist(["DNSEndpoint", "Service"]),
    "DNSEndpoint",
    "`DNSEndpoint` for external-dns with `--source=crd`, `Service` (headless, annotated) for `--source=service`.",
  ),
  ttlSeconds: setting(integer(1, 86_400), 60, "TTL of the records."),
  labels: setting(metadataKeys, {}, "Labels of the objects, for `--label-filter` of external-dns."),
  annotations: setting(metadataKeys, {}, "Annotations of the objects, for `--annotation-filter` of external-dns."),
  recordLabels: setting(
    metadataKeys,
    {},
    "Labels of each record of a DNSEndpoint. The owner is external-dns' own setting, `--txt-owner-id`.",
  ),
  removeWaitSeconds: setting(
    secondsFrom(0, 600),
    120,
    "How long a removal waits after the objects are deleted: `--interval` of external-dns (a minute), and the TTL. " +
      "Names would lead to addresses that are not Switchback's any more.",
  ),
});

/** Settings that all publishers share, and a section for each. */
const publishersSchema = strictObject({
  address: setting(v.string(), "::", "Address that the port binds."),
  healthPort: setting(bindPort, 8087, "Health and metrics."),
  checkSeconds: setting(
    secondsFrom(1),
    30,
    "How often a publisher checks whether what it wrote is still there, even if the map does not change.",
  ),
  minIntervalSeconds: setting(
    seconds,
    15,
    "Shortest time between two publications: each makes every CoreDNS of the cluster reload.",
  ),
  answerSeconds: setting(
    secondsFrom(10),
    300,
    "If the cluster's DNS does not answer with what was written after this long, it is taken out again.",
  ),
  corednsImport: section(corednsImportSchema),
  coredns: section(corednsSchema),
  externalDns: section(externalDnsSchema),
});

const schema = section(publishersSchema);

/** The section of the configuration. */
export const PUBLISHERS_SECTION: Section<typeof schema> = { name: "publishers", schema };

export type PublishersSettings = v.InferOutput<typeof publishersSchema>;
