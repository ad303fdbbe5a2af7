import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseAllDocuments } from "yaml";
import type { FullStatus } from "#controller/status.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { LISTED } from "#test/fakes/cluster-table.ts";
import { type ClusterFile, readClusterFile } from "./read-file.ts";
import { Redactor } from "./redact.ts";
import { answerSchema, DUMP_VERSION, schemaOfObject } from "./schemas.ts";
import { statusOfFile } from "./status-of-file.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "test", "field-cases");

const LINODE = "service.beta.kubernetes.io/linode-loadbalancer-port-443";

function redacted(...objects: object[]): object[] {
  const redactor = new Redactor(objects as ApiObject[], []);
  return objects.map((object) => redactor.redact(schemaOfObject(object), object));
}

describe("a redacted dump", () => {
  const ingress = (spec: object, metadata: object = {}) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { namespace: "shop", name: "checkout", ...metadata },
    spec,
  });
  const hosts = (...names: string[]) => ({ rules: names.map((host) => ({ host })) });
  const service = (...ips: string[]) => ({
    apiVersion: "v1",
    kind: "Service",
    status: { loadBalancer: { ingress: ips.map((ip) => ({ ip })) } },
  });

  test("replaces the group of a parent, which anybody may choose", () => {
    const metadata = { namespace: "shop", name: "web" };
    const spec = { parentRefs: [{ group: "initech", kind: "Gateway", name: "edge" }] };
    const route = { apiVersion: "gateway.networking.k8s.io/v1", kind: "HTTPRoute", metadata, spec };
    assert.doesNotMatch(JSON.stringify(redacted(route)), /initech/);
  });

  test("replaces each name, host and address, always with the same word", () => {
    const text = JSON.stringify(
      redacted(
        ingress({ ...hosts("shop.initech.com", "*.Shop.initech.com"), tls: [{ secretName: "initech-cert" }] }),
        { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels: { team: "initech" } } },
        service("8.8.8.8", "10.1.2.3", "8.8.8.8", "2A00::1"),
        service("2a00:0:0::1", "fd00::9"),
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

  test("keeps what a decision depends on: known software, values of ours, suffixes, an invalid name", () => {
    const names = ["a.svc.cluster.local", "metadata.google.internal", "acme-v02.api.letsencrypt.org", "-a_b.com"];
    const annotations = {
      [LINODE]: '{"proxy-protocol":"v2","tls-secret-name":"initech"}',
      "service.beta.kubernetes.io/scw-loadbalancer-proxy-protocol-v2": "80,443",
      "switchback.dev/map": "always",
    };
    const labels = { "app.kubernetes.io/name": "ingress-nginx" };
    const spec = { controller: "haproxy.org/ingress-controller/initech" };
    const objects = redacted(
      ingress({ ingressClassName: "nginx", ...hosts(...names) }, { annotations }),
      { apiVersion: "networking.k8s.io/v1", kind: "IngressClass", spec },
      { ...service(), metadata: { labels } },
    );
    const text = JSON.stringify(objects).replaceAll(/n\d+/g, "N");
    assert.match(text, /"ingressClassName":"nginx"/);
    assert.match(text, /"controller":"haproxy\.org\/ingress-controller\/N"/);
    const shown = ["N.svc.cluster.local", "metadata.google.internal", "N.api.letsencrypt.org", "-N_N.com"];
    assert.ok(text.includes(JSON.stringify(hosts(...shown).rules)), text);
    assert.match(text, /port-443":"\{\\"proxy-protocol\\":\\"v2\\",\\"\S+\\":\\"N\\"\}"/);
    assert.match(text, /proxy-protocol-v2":"80,443","switchback\.dev\/map":"always"/);
    assert.match(text, /"labels":\{"app\.kubernetes\.io\/name":"ingress-nginx"\}/);
  });

  test("also replaces the names in sentences, paths and pages, but not our own words", () => {
    const answer = new Redactor().redact(answerSchema, {
      path: "/api/v1/namespaces/checkout/pods",
      message: "GET /api/v1/namespaces/checkout/pods: 403 Forbidden: cannot list checkout of 8.8.8.8:443",
      text: '{"names":[{"name":"shop.initech.com","reason":{"code":"dns-elsewhere","text":"checkout"}}]}',
    });
    const { path, message, text } = answer as { path: string; message: string; text: string };
    assert.match(path, /^\/api\/v1\/namespaces\/n\d+\/pods$/);
    assert.match(message.replace(path, "PATH"), /^GET PATH: 403 Forbidden: cannot list n\d+ n\d+ 198\.[\d.]+:443$/);
    assert.match(text, /^\{"names":\[\{"name":"\w+\.n\d+\.com","reason":\{"code":"dns-elsewhere","text":"n\d+"/);
  });
});

describe("status --from has the same result after redaction", () => {
  const files = useFiles();

  const read = async (documents: readonly string[]): Promise<ClusterFile> =>
    readClusterFile(await files.file("cluster.yaml", documents.join("\n---\n")));
  const resultOf = ({ names }: FullStatus) =>
    names.map(({ target, reason }) => `${target === undefined ? "refused" : "mapped"} ${reason?.code}`).sort();

  /** The result with these objects, which must be the same after redaction. */
  async function resultWith(objects: readonly object[]): Promise<FullStatus> {
    const head = { apiVersion: DUMP_VERSION, kind: "Dump" };
    const cluster = await read([head, ...LISTED, ...objects].map((each) => JSON.stringify(each)));
    const lines = [...dumpLines(await recordCluster(cluster.client, { ...cluster.head, now: cluster.time }), true)];
    const result = await statusOfFile(await read(lines));
    assert.deepEqual(resultOf(result), resultOf(await statusOfFile(cluster)));
    return result;
  }

  for (const file of globSync("*.yaml", { cwd: FOLDER }).sort()) {
    test(file, async () => {
      const [, ...objects] = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((one) => one.toJS());
      await resultWith(objects);
    });
  }

  test("a kind that only the configuration names is not in a dump, and the status says so", async () => {
    const metadata = { namespace: "switchback-system", name: "switchback-config" };
    const custom = { group: "initech.com", version: "v1", resource: "pipes", syntax: "list", hostnames: "$.spec.host" };
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata };
    const pipe = { apiVersion: "initech.com/v1", kind: "Pipe", metadata: { namespace: "shop", name: "one" } };
    const head = { apiVersion: DUMP_VERSION, kind: "Dump" };
    const objects = [
      { ...config, data: { "config.yaml": JSON.stringify({ sources: { custom: [custom] } }) } },
      { ...pipe, spec: { host: "a.initech.com" } },
    ];
    const cluster = await read([head, ...LISTED, ...objects].map((each) => JSON.stringify(each)));
    assert.deepEqual(
      (await statusOfFile(cluster)).names.map(({ name }) => name),
      ["a.initech.com"],
    );
    const lines = [...dumpLines(await recordCluster(cluster.client, { ...cluster.head, now: cluster.time }), false)];
    assert.doesNotMatch(lines.join(), /a\.initech\.com/);
    const { names, warnings } = await statusOfFile(await read(lines));
    assert.deepEqual([names, warnings.map(({ code }) => code)], [[], ["not-installed", "dump-incomplete"]]);
  });
});
