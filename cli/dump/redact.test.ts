import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { rootCertificates } from "node:tls";
import { parseAllDocuments, stringify } from "yaml";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import { readableAuthorities } from "#certs/pem.ts";
import type { FullStatus } from "#controller/status.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { ASKED_TARGET, fullStatus, WORKLOAD } from "#test/fakes/full-status.ts";
import { DUMP_VERSION } from "./format.ts";
import { knownWords } from "./known-words.ts";
import { type Dump, readDump } from "./read-dump.ts";
import { Redactor } from "./redact.ts";
import { statusOfDump } from "./status-of-dump.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "test", "field-cases");

const KNOWN = knownWords([]);
const LINODE = "service.beta.kubernetes.io/linode-loadbalancer-port-443";

function redacted(...objects: object[]): object[] {
  const redactor = new Redactor(() => objects.map((object) => JSON.stringify(object)), KNOWN);
  return objects.map((object) => redactor.object(object));
}

describe("a redacted dump", () => {
  const ingress = (spec: object, metadata: object = {}) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { namespace: "shop", name: "checkout", ...metadata },
    spec,
  });
  const hosts = (...names: string[]) => ({ rules: names.map((host) => ({ host })) });

  test("replaces each name, host and address, always with the same word", () => {
    const text = JSON.stringify(
      redacted(
        ingress({ ...hosts("shop.initech.com", "*.Shop.initech.com"), tls: [{ secretName: "initech-cert" }] }),
        { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels: { team: "initech" } } },
        { status: { ingress: [{ ip: "8.8.8.8" }, { ip: "10.1.2.3" }, { ip: "8.8.8.8" }, { ip: "2A00::1" }] } },
        { status: { ingress: [{ ip: "2a00:0:0::1" }, { ip: "fd00::9" }] } },
      ),
    );
    assert.doesNotMatch(text, /shop|initech|checkout|8\.8\.8\.8|10\.1\.2\.3|2a00|fd00::9/i);
    const [, first, second = ""] = /"host":"([^"]+)"},{"host":"([^"]+)"/.exec(text) ?? [];
    assert.equal(second.toLowerCase(), `*.${first}`);
    const [eight, ten, again, six, other, local] = [...text.matchAll(/"ip":"([^"]+)"/g)].map(([, ip = ""]) => ip);
    assert.deepEqual([again, other], [eight, six]);
    assert.match(ten ?? "", /^10\./);
    assert.match(local ?? "", /^fd00::/);
  });

  test("keeps what a decision depends on: known software, providers, values of ours, suffixes, an invalid name", () => {
    const names = ["a.svc.cluster.local", "metadata.google.internal", "acme-v02.api.letsencrypt.org", "-a_b.com"];
    const annotations = {
      "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol": "*",
      "service.beta.kubernetes.io/linode-loadbalancer-port-443": '{"proxy-protocol":"v2","tls-secret-name":"initech"}',
      "service.beta.kubernetes.io/scw-loadbalancer-proxy-protocol-v2": "80,443",
      "load-balancer.hetzner.cloud/": "",
      "switchback.dev/map": "always",
    };
    const labels = { "app.kubernetes.io/name": "ingress-nginx", "switchback.dev/inject": "enabled" };
    const [object] = redacted(
      ingress({ ingressClassName: "nginx", controller: "haproxy.org/ingress-controller/initech", ...hosts(...names) }),
      { metadata: { annotations, labels } },
    ) as [{ spec: { ingressClassName: string; controller: string; rules: { host: string }[] } }];
    const { ingressClassName, controller, rules } = object.spec;
    assert.equal(ingressClassName, "nginx");
    assert.match(controller, /^haproxy\.org\/ingress-controller\/n\d+$/);
    const patterns = [/^n\d+\.svc\.cluster\.local$/, /^metadata\.google\.internal$/, /^n\d+\.api\.letsencrypt\.org$/];
    for (const [index, pattern] of [...patterns, /^-n\d+_n\d+\.com$/].entries())
      assert.match(rules[index]?.host ?? "", pattern);
    const [, { metadata }] = redacted(ingress({}), { metadata: { annotations, labels } }) as [
      object,
      { metadata: { annotations: Record<string, string>; labels: object } },
    ];
    assert.deepEqual(metadata.labels, labels);
    const { [LINODE]: linode = "", ...others } = metadata.annotations;
    const { [LINODE]: _, ...expected } = annotations;
    assert.deepEqual(others, expected);
    assert.match(
      linode,
      /^\{"proxy-protocol":"v2","tls-n\d+-name":"n\d+"\}$|^\{"proxy-protocol":"v2","n\d+":"n\d+"\}$/,
    );
  });

  test("replaces certificates, whose subjects are names, and still shows which authority signed which", async () => {
    const life = { now: Date.now(), days: 1 };
    const [ca, other] = [await issueAuthority(life), await issueAuthority(life)];
    const leaf = await issueLeaf(ca, ["shop.initech.com"], life);
    const base64 = (...pems: string[]) => Buffer.from(pems.join("")).toString("base64");
    const bundles = [base64(ca.cert), base64(other.cert, ca.cert), base64(other.cert), base64("initech"), ""];
    const webhooks = bundles.map((caBundle) => ({ clientConfig: { caBundle } }));
    const [configuration, secret] = redacted({ webhooks }, { data: { "tls.crt": base64(leaf.cert) } }) as [
      { webhooks: { clientConfig: { caBundle: string } }[] },
      { data: { "tls.crt": string } },
    ];
    const text = (data: string) => Buffer.from(data, "base64").toString();
    const root = text(secret.data["tls.crt"]);
    assert.ok(rootCertificates.includes(root));
    const shown = configuration.webhooks.map(({ clientConfig }) => text(clientConfig.caBundle));
    assert.deepEqual(
      shown.map((bundle) => bundle.includes(root)),
      [true, true, false, false, false],
    );
    assert.deepEqual(
      shown.map((bundle) => readableAuthorities(bundle).length),
      [1, 2, 1, 0, 0],
    );
  });

  test("has a ReplicaSet with the name of its Deployment and the hash of its pods", () => {
    const metadata = { name: "web-5d4f6-x", labels: { "pod-template-hash": "5d4f6" } };
    const [pod, deployment] = redacted(
      { metadata: { ...metadata, ownerReferences: [{ kind: "ReplicaSet", name: "initech-web-5d4f6" }] } },
      { metadata: { name: "initech-web" } },
    ) as [{ metadata: { labels: object; ownerReferences: object[] } }, { metadata: { name: string } }];
    const [hash] = Object.values(pod.metadata.labels);
    assert.deepEqual(pod.metadata.ownerReferences, [
      { kind: "ReplicaSet", name: `${deployment.metadata.name}-${hash}` },
    ]);
  });

  test("has every field of the controller's page", () => {
    const keysOf = (value: unknown): string[] =>
      Object.entries(Object(value)).flatMap(([key, field]) => [
        key,
        ...(typeof field === "object" ? keysOf(field) : []),
      ]);
    const page = JSON.parse(JSON.stringify(fullStatus({ targets: [ASKED_TARGET] }, { workloads: [WORKLOAD] })));
    assert.deepEqual(keysOf(redacted(page)[0]), keysOf(page));
  });

  test("also replaces the names in sentences, paths and pages, but not our own words", () => {
    const [answer] = redacted({
      method: "GET",
      path: "/api/v1/namespaces/checkout/pods",
      status: 403,
      message: "GET /api/v1/namespaces/checkout/pods: 403 Forbidden: see policy.verifyDns of checkout at 8.8.8.8",
      contentType: "arn:aws:sts::123456789012:assumed-role/assumed-role",
      text: '{"names":[{"name":"shop.initech.com","reason":{"code":"dns-elsewhere","text":"checkout"}}]}',
    }) as [{ path: string; message: string; contentType: string; text: string; status: number }];
    const { path, message, contentType, text, status } = answer;
    assert.match(contentType, /^n\d+:aws:n\d+::10\d+:(n\d+)\/\1$/);
    assert.doesNotMatch(`${path}${message}${text}`, /checkout|shop|initech|8\.8\.8\.8/);
    assert.match(path, /^\/api\/v1\/namespaces\/n\d+\/pods$/);
    assert.ok(message.startsWith(`GET ${path}: 403 Forbidden: n`), message);
    assert.match(message, / policy\.verifyDns /);
    assert.match(
      text,
      /^\{"names":\[\{"name":"\w+\.n\d+\.com","reason":\{"code":"dns-elsewhere","text":"n\d+"\}\}\]\}$/,
    );
    assert.equal(status, 403);
  });
});

describe("status --from has the same result after redaction", () => {
  const files = useFiles();

  const read = async (documents: readonly string[]): Promise<Dump> =>
    readDump(await files.file("cluster.yaml", documents.join("\n---\n")));
  const resultOf = ({ names }: FullStatus) =>
    names.map(({ target, reason }) => `${target === undefined ? "refused" : "mapped"} ${reason?.code}`).sort();

  /** The result with these objects, which must be the same after redaction. */
  async function resultWith(objects: readonly object[], resources = {}): Promise<string[]> {
    const head = { apiVersion: DUMP_VERSION, kind: "Dump", resources };
    const dump = await read([head, ...objects].map((each) => stringify(each)));
    const lines = [...dumpLines(await recordCluster(dump.client, { ...dump.head, now: dump.time }), true)];
    const result = resultOf(await statusOfDump(dump));
    assert.deepEqual(resultOf(await statusOfDump(await read(lines))), result);
    return result;
  }

  for (const file of globSync("*.yaml", { cwd: FOLDER }).sort()) {
    test(file, async () => {
      const [, ...objects] = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((one) => one.toJS());
      await resultWith(objects);
    });
  }

  test("a kind that only the configuration names, with its own words, an annotation and a filter", async () => {
    const metadata = { namespace: "switchback-system", name: "switchback-config" };
    const custom = {
      ...{ group: "routing.initech.com", version: "v1beta7", resource: "bigpipes", syntax: "list" },
      hostnames: "$.metadata.annotations['initech.com/hosts']",
      addresses: "$.spec.gates[?@.side == 'front'].addr",
    };
    const pipe = (name: string, hosts: string, side: string) => ({
      ...{ apiVersion: "routing.initech.com/v1beta7", kind: "BigPipe" },
      metadata: { namespace: "payroll", name, annotations: { "initech.com/hosts": hosts } },
      spec: { gates: [{ side, addr: "203.0.113.7" }], password: "hunter2" },
    });
    const result = await resultWith(
      [
        {
          ...{ apiVersion: "v1", kind: "ConfigMap", metadata },
          data: { "config.yaml": stringify({ sources: { custom: [custom] }, discovery: { detect: false } }) },
        },
        {
          ...{ apiVersion: "v1", kind: "Service", metadata: { namespace: "payroll", name: "edge" } },
          spec: { type: "LoadBalancer", clusterIPs: ["10.96.0.9"], ports: [{ port: 80 }, { port: 443 }] },
          status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
        },
        pipe("one", "a.initech.com, b.initech.com", "front"),
        pipe("two", "c.initech.com", "back"),
      ],
      { "BigPipe.routing.initech.com": "bigpipes" },
    );
    assert.deepEqual(
      result.map((line) => line.split(" ", 1)[0]),
      ["mapped", "mapped", "refused"],
    );
  });
});
