import * as z from "zod";
import { label, seconds } from "./values.ts";

// The settings of the publishers: each is a process of its own that gives the map to somebody who is not a pod that opted in.

const objectName = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be the name of a Kubernetes object");
const dataKey = z.string().regex(/^[-._a-zA-Z0-9]{1,253}$/, "must be a key of a ConfigMap");

const enabled = z.boolean().default(false);
const ttlSeconds = seconds
  .min(1)
  .default(5)
  .describe("TTL of mapped names: how long a client that caches may keep an address.");
const namespace = label.default("kube-system");

const corednsImportSchema = z.strictObject({
  enabled: enabled.describe(
    "Publish the names to everybody, in a file that the cluster's CoreDNS imports; the ConfigMap's other keys are not touched.",
  ),
  namespace: namespace.describe("Namespace of both ConfigMaps."),
  configMap: objectName
    .default("coredns-custom")
    .describe("The ConfigMap whose keys the Corefile imports. It is created if it does not exist."),
  key: dataKey
    .default("switchback.server")
    .describe("The key that is written. The Corefile must import it outside of its server blocks, as `*.server`."),
  corefile: z
    .strictObject({
      configMap: objectName
        .default("coredns")
        .describe("The ConfigMap with the cluster's Corefile, which is only read."),
      key: dataKey.default("Corefile").describe("Its key."),
    })
    .prefault({}),
  ttlSeconds,
});

const corednsSchema = z.strictObject({
  enabled: enabled.describe(
    "Publish the names to everybody, in the cluster's Corefile itself, for clusters whose Corefile imports nothing.",
  ),
  namespace: namespace.describe("Namespace of the ConfigMap."),
  configMap: objectName.default("coredns").describe("The ConfigMap with the cluster's Corefile."),
  key: dataKey.default("Corefile").describe("The key that is written."),
  ttlSeconds,
});

const metadataKeys = z.record(z.string().min(1).max(317), z.string().max(1_000));

const externalDnsSchema = z.strictObject({
  enabled: enabled.describe(
    "Publish the names as objects in the namespace of Switchback that external-dns makes DNS records from.",
  ),
  kind: z
    .enum(["DNSEndpoint", "Service"])
    .default("DNSEndpoint")
    .describe(
      "`DNSEndpoint` for external-dns with `--source=crd`, `Service` (headless, annotated) for `--source=service`.",
    ),
  ttlSeconds: z.int().min(1).max(86_400).default(60).describe("TTL of the records."),
  labels: metadataKeys.default({}).describe("Labels of the objects, for `--label-filter` of external-dns."),
  annotations: metadataKeys
    .default({})
    .describe("Annotations of the objects, for `--annotation-filter` of external-dns."),
  recordLabels: metadataKeys
    .default({})
    .describe("Labels of each record of a DNSEndpoint. The owner is external-dns' own setting, `--txt-owner-id`."),
  removeWaitSeconds: seconds
    .max(600)
    .default(120)
    .describe(
      "How long a removal waits after the objects are deleted: `--interval` of external-dns (a minute), and the TTL. Names would lead to addresses that are not Switchback's any more.",
    ),
});

/** What all publishers have in common, and a section for each. */
export const publishersSchema = z.strictObject({
  address: z.string().default("::").describe("Address that the port binds."),
  healthPort: z.int().min(0).max(65535).default(8087).describe("Health and metrics."),
  checkSeconds: seconds
    .min(1)
    .default(30)
    .describe("How often a publisher checks whether what it wrote is still there, even if the map does not change."),
  minIntervalSeconds: seconds
    .default(15)
    .describe("Shortest time between two publications: each makes every CoreDNS of the cluster reload."),
  answerSeconds: seconds
    .min(10)
    .default(300)
    .describe("If the cluster's DNS does not answer with what was written after this long, it is taken out again."),
  corednsImport: corednsImportSchema.prefault({}),
  coredns: corednsSchema.prefault({}),
  externalDns: externalDnsSchema.prefault({}),
});
