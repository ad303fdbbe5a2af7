import forge from "node-forge";
import { makeRsaKey } from "#certs/issue.ts";
import { KINDS, READ_ANNOTATIONS } from "#cli/dump/schemas.ts";
import { StoredCluster } from "#cli/dump/stored-cluster.ts";
import { emptyPublisherState } from "#extras/publishers/publisher-state.ts";
import type { Schema } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { mapObjects, OBJECTS, targetsObject } from "../published.ts";
import { fullStatus, WORKLOAD } from "./full-status.ts";
import type { SecretTexts } from "./secret-texts.ts";

interface Parts {
  readonly type?: string;
  readonly wrapped?: Schema;
  readonly item?: Schema;
  readonly value?: Schema;
  readonly entries?: Readonly<Record<string, Schema>>;
  readonly options?: readonly [Schema];
}

/** A value with a secret in every field, and with fields, labels and annotations that nobody reads. */
function filled(schema: Schema, make: SecretTexts, key = ""): unknown {
  const { type, wrapped, entries, item, value, options } = schema as Parts;
  if (wrapped !== undefined) return filled(wrapped, make, key);
  if (options !== undefined) return filled(options[0], make);
  if (item !== undefined) return [filled(item, make), filled(item, make)];
  if (value !== undefined || type === "custom") {
    const read = key === "annotations" ? READ_ANNOTATIONS : [];
    return Object.fromEntries([make.next(), make.word(), ...read].map((name) => [name, make.next()]));
  }
  if (entries === undefined) return type === "number" ? 443 : type === "boolean" ? true : make.next();
  return {
    ...Object.fromEntries(Object.entries(entries).map(([name, field]) => [name, filled(field, make, name)])),
    [make.word()]: make.next(),
    headers: { [make.word()]: [make.next(), Number(make.number())] },
    env: [{ name: make.word(), value: make.next() }],
  };
}

/** The document with another text in place of each of its texts. */
function withSecrets(document: object, make: SecretTexts): string {
  return JSON.stringify(document, (_key, value) => (typeof value === "string" ? make.next() : value));
}

/** A certificate whose subject has secrets, as in a Secret. */
async function certificate(make: SecretTexts): Promise<string> {
  const keys = await makeRsaKey();
  const cert = forge.pki.createCertificate();
  const names = [{ name: "commonName", value: `${make.word()}.${make.word()}.com` }];
  cert.publicKey = forge.pki.publicKeyFromPem(keys.publicKey);
  cert.setSubject(names);
  cert.setIssuer(names);
  cert.sign(forge.pki.privateKeyFromPem(keys.privateKey), forge.md.sha256.create());
  return Buffer.from(forge.pki.certificateToPem(cert)).toString("base64");
}

/** Labels by which an object is found. */
const LABELS: Readonly<Record<string, object>> = {
  pods: { "switchback.dev/inject": "enabled" },
  leases: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "agent" },
};

/**
 * A cluster of every kind that is read, with an installation of Switchback. Every text that somebody can write there
 * is a secret. `refused`: the API server answers every list with an error that has secrets.
 */
export async function nastyCluster(
  make: SecretTexts,
  refused: boolean,
): Promise<{ readonly client: KubeClient; readonly namespace: string }> {
  const cluster = new StoredCluster();
  const { answers } = cluster;
  const namespace = make.word();
  const service = { namespace: make.word(), name: make.word() };
  const failure = () => ({ status: 403, message: `GET /x: 403 Forbidden: User "${make.next()}" ${make.next()}` });
  const put = (type: string, object: object, kind = type.split(".", 1)[0]) => {
    const [resource = "", ...group] = type.split(".");
    const version = group[0] === "traefik" || resource === "xlistenersets" ? "v1alpha1" : "v1";
    const root = group.length === 0 ? "/api/v1" : `/apis/${group.join(".")}/${version}`;
    const apiVersion = root.slice(root.lastIndexOf("/", root.length - version.length - 2) + 1);
    cluster.put(`${root}/${resource}`, { ...object, apiVersion, kind } as ApiObject);
    if (refused) answers.set(`GET ${root}/${resource}`, failure());
  };
  for (const [type, { schema }] of KINDS) {
    const resource = type.split(".", 1)[0] ?? "";
    for (const inside of [namespace, service.namespace, "switchback-agent"]) {
      const object = filled(schema, make) as ApiObject;
      const labels = { ...object.metadata?.labels, ...LABELS[resource], "kubernetes.io/service-name": service.name };
      const { deletionTimestamp: _, ...metadata } = object.metadata ?? {};
      put(type, { ...object, metadata: { ...metadata, namespace: inside, name: make.word(), labels } });
    }
  }
  const custom = { group: `${make.word()}.com`, resource: make.word() };
  const spec = { f: `${make.word()}.com`, [make.word()]: make.next() };
  put(`${custom.resource}.${custom.group}`, { metadata: { namespace, name: make.word() }, spec }, make.word());
  const ours = (name: string, labels: object, data: Record<string, string>) =>
    put("configmaps", { metadata: { namespace, name, labels, annotations: { [make.word()]: make.next() } }, data });
  ours(
    "switchback-config",
    {},
    {
      "config.yaml": `
        # password: ${make.word()}
        targets: [{ name: ${make.word()}, classes: [${make.word()}], upstream: ${JSON.stringify({ service })} }]
        policy: { denyDomains: [${make.word()}.com], dnsServers: ["${make.ipv4()}:53"] }
        pods: { excludedNamespaces: [${make.word()}] }
        sources: { custom: [${JSON.stringify({ ...custom, version: "v1", hostnames: "$.spec.f" })}] }
        nodeHosts: { names: [${make.word()}.com] }
        proxy: { selector: { ${make.word()}: ${make.word()} } }`,
    },
  );
  const upstream = `${service.name}.${service.namespace}.svc`;
  const target = { name: make.word(), upstream, clusterIPs: [make.ipv4(10)] };
  const port = { port: 443, listenPort: 15_000, upstreamPort: 443, protocol: "v1" as const };
  const question = { ...target, target: target.name, port: 443, speaks: "tls" as const, upstreamPort: 443 };
  const asked = { ...question, namespace: make.word() };
  const map = mapObjects({ [`${make.word()}.com`]: [make.ipv4(10)] }, { targets: [target] });
  for (const { metadata, data: content } of [...map, targetsObject([{ ...target, ports: [port] }], [asked])]) {
    ours(metadata.name, metadata.labels, content);
  }
  const state = {
    ...emptyPublisherState("x", "x"),
    problem: { code: "x", text: "x" },
    takenBack: [{ at: 1, by: "x" }],
  };
  const publisher = { "switchback.dev/publisher": "coredns" };
  ours("switchback-publisher-coredns", publisher, {
    [OBJECTS.publisherState]: withSecrets(state, make),
    original: make.next(),
  });
  const corefile = [
    `.:53 {\n kubernetes ${make.word()}.local\n rewrite name ${make.word()}.com ${make.word()}`,
    ` tsig { secret ${make.word()} }\n ${make.word()} # Added by hairpin-proxy\n}`,
  ].join("\n");
  put("configmaps", {
    metadata: { namespace: "kube-system", name: "coredns" },
    data: { Corefile: corefile, [make.word()]: make.next() },
  });
  const caBundle = await certificate(make);
  const webhooks = [{ name: make.word(), clientConfig: { caBundle } }];
  put("mutatingwebhookconfigurations.admissionregistration.k8s.io", {
    metadata: { name: "switchback-webhook" },
    webhooks,
  });
  const ofNamespace = (path: string) => `/api/v1/namespaces/${namespace}/${path}`;
  const data = { "tls.crt": caBundle, "tls.key": make.next() };
  answers.set("GET /version", { status: 200, body: { gitVersion: make.next(), [make.word()]: make.next() } });
  answers.set(`GET ${ofNamespace(`secrets/${OBJECTS.serving}`)}`, { status: 200, body: { data } });
  answers.set(`GET ${ofNamespace(`secrets/${OBJECTS.statusKey}`)}`, failure());
  answers.set(`POST ${ofNamespace("pods")}`, failure());
  answers.set(`GET ${ofNamespace("services/switchback-controller:http/proxy/status")}`, {
    status: 200,
    text: withSecrets(fullStatus({}, { workloads: [WORKLOAD] }), make),
  });
  answers.set(`GET ${ofNamespace("services/switchback-proxy:metrics/proxy/readyz")}`, {
    status: 503,
    text: `[-] listening: ${make.next()}\n[i] upstream ${make.word()}:443: failing (${make.next()}) since x\n`,
  });
  return { client: cluster.client(), namespace };
}
