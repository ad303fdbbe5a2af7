import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseAllDocuments } from "yaml";
import type { FullStatus } from "#controller/status.ts";
import { statusSchema } from "#doctor/install-documents.ts";
import { parse } from "#lib/errors/validation.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { LISTED } from "#test/fakes/cluster-table.ts";
import { fullStatus, WORKLOAD } from "#test/fakes/full-status.ts";
import { DUMP_VERSION } from "./format.ts";
import { type ClusterFile, readClusterFile } from "./read-file.ts";
import { Redactor } from "./redact.ts";
import { statusOfFile } from "./status-of-file.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "test", "field-cases");

const LINODE = "service.beta.kubernetes.io/linode-loadbalancer-port-443";

function redacted(...objects: object[]): object[] {
  const redactor = new Redactor(objects as ApiObject[], []);
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

  test("has every field of the controller's page that the doctor reads", () => {
    const keysOf = (value: unknown): string[] =>
      Object.entries(Object(value)).flatMap(([key, field]) => [
        key,
        ...(typeof field === "object" ? keysOf(field) : []),
      ]);
    const page = parse(statusSchema, JSON.parse(JSON.stringify(fullStatus({}, { workloads: [WORKLOAD] }))));
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
    assert.deepEqual([names, warnings.map(({ code }) => code)], [[], ["dump-incomplete"]]);
  });
});
