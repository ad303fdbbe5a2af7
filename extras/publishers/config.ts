import * as v from "valibot";
import type { Section } from "#lib/config/sections.ts";
import { described, label, secondsFrom, section, setting } from "#lib/config/values.ts";
import { integer, record, strictObject } from "#lib/errors/schemas.ts";

// Settings of the publishers. Each publisher is a process that gives the map to readers other than opted-in pods.

const objectName = v.pipe(
  v.string(),
  v.regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be the name of a Kubernetes object"),
);
const dataKey = v.pipe(v.string(), v.regex(/^[-._a-zA-Z0-9]{1,253}$/, "must be a key of a ConfigMap"));

/** The key of a ConfigMap with a Corefile, as CoreDNS' own manifests and charts name it. */
export const COREFILE_KEY = "Corefile";

const enabled = v.optional(v.boolean(), false);
const namespace = v.optional(label, "kube-system");

const corednsImportSchema = strictObject({
  enabled: described(
    enabled,
    "Publish the names to everybody, in a file that the cluster's CoreDNS imports; the ConfigMap's other keys are " +
      "not touched.",
  ),
  namespace: described(namespace, "Namespace of both ConfigMaps. Set it if CoreDNS runs elsewhere."),
  configMap: setting(
    objectName,
    "coredns-custom",
    "The ConfigMap whose keys the Corefile imports. It is created if it does not exist. Set it if your " +
      "distribution uses another name.",
  ),
  key: setting(
    dataKey,
    "switchback.server",
    "The key that is written. The Corefile imports it outside of its server blocks, as `*.server`, or inside of the " +
      "one that answers everything, as `*.override`. Set it to what your Corefile imports.",
  ),
  corefile: setting(
    objectName,
    "coredns",
    "The ConfigMap with the cluster's Corefile, which is only read. Set it if yours has another name.",
  ),
});

const corednsSchema = strictObject({
  enabled: described(
    enabled,
    "Publish the names to everybody, in the cluster's Corefile itself, for clusters whose Corefile imports nothing.",
  ),
  namespace: described(namespace, "Namespace of the ConfigMap. Set it if CoreDNS runs elsewhere."),
  configMap: setting(
    objectName,
    "coredns",
    "The ConfigMap with the cluster's Corefile. Set it if yours has another name.",
  ),
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
  ttlSeconds: setting(integer(1, 86_400), 60, "TTL of the records. Lower it if addresses change often."),
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

/** A section for each publisher. */
const publishersSchema = strictObject({
  corednsImport: section(corednsImportSchema),
  coredns: section(corednsSchema),
  externalDns: section(externalDnsSchema),
});

const schema = section(publishersSchema);

/** The section of the configuration. */
export const PUBLISHERS_SECTION: Section<typeof schema> = { name: "publishers", schema };

export type PublishersSettings = v.InferOutput<typeof publishersSchema>;
