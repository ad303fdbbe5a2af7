import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { parseAllDocuments, stringify } from "yaml";
import type { FullStatus } from "#controller/status.ts";
import { useFiles } from "#test/fakes/cli.ts";
import { DUMP_VERSION } from "./format.ts";
import { type Dump, readDump } from "./read-dump.ts";
import { Redactor } from "./redact.ts";
import { statusOfDump } from "./status-of-dump.ts";
import { dumpLines, recordCluster } from "./write-dump.ts";

const FOLDER = join(import.meta.dirname, "..", "..", "test", "field-cases");

function redacted(...objects: object[]): object[] {
  const redactor = new Redactor(() => objects.map((object) => JSON.stringify(object)), "cozy.local");
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
        ingress({ ...hosts("shop.acme-corp.com", "*.shop.acme-corp.com"), tls: [{ secretName: "acme-cert" }] }),
        { apiVersion: "v1", kind: "Namespace", metadata: { name: "shop", labels: { team: "acme" } } },
        { status: { ingress: [{ ip: "8.8.8.8" }, { ip: "10.1.2.3" }, { ip: "8.8.8.8" }, { ip: "2a00::1" }] } },
      ),
    );
    assert.doesNotMatch(text, /shop|acme|checkout|8\.8\.8\.8|10\.1\.2\.3|2a00::1/);
    const [, first, second] = /"host":"([^"]+)"},{"host":"([^"]+)"/.exec(text) ?? [];
    assert.equal(second, `*.${first}`);
    const ips = [...text.matchAll(/"ip":"([^"]+)"/g)].map(([, ip = ""]) => ip);
    assert.equal(ips[0], ips[2]);
    assert.match(ips[1] ?? "", /^10\./);
  });

  test("keeps classes, software, providers' settings and suffixes that affect a decision", () => {
    const names = ["a.svc.cozy.local", "b.cluster.local", "metadata.google.internal", "acme-v02.api.letsencrypt.org"];
    const annotations = {
      "service.beta.kubernetes.io/aws-load-balancer-proxy-protocol": "*",
      "switchback.dev/map": "always",
      "acme-corp.com/owner": "someone",
    };
    const labels = { "app.kubernetes.io/name": "ingress-nginx", "switchback.dev/inject": "enabled" };
    const text = JSON.stringify(
      redacted(ingress({ ingressClassName: "own-class", ...hosts(...names) }, { annotations, labels })),
    );
    for (const kept of [
      ".svc.cozy.local",
      "cluster.local",
      '"metadata.google.internal"',
      '.letsencrypt.org"',
      "own-class",
    ])
      assert.ok(text.includes(kept), kept);
    for (const kept of ['-proxy-protocol":"*"', '"switchback.dev/map":"always"', '"ingress-nginx"', ':"enabled"'])
      assert.ok(text.includes(kept), kept);
    assert.doesNotMatch(text, /acme-corp|someone/);
  });

  test("keeps names of classes only if the class has the right API group", () => {
    const named = (apiVersion: string, name: string) => ({ apiVersion, kind: "IngressClass", metadata: { name } });
    const text = JSON.stringify(
      redacted(named("networking.k8s.io/v1", "edge-class"), named("example.com/v1", "acme-class")),
    );
    assert.match(text, /"edge-class"/);
    assert.doesNotMatch(text, /acme-class/);
  });

  test("also replaces the names in sentences, paths and pages", () => {
    const redactor = new Redactor(() => [JSON.stringify(ingress(hosts("shop.acme-corp.com")))], undefined);
    const { path, message, text } = redactor.answer("/api/v1/namespaces/shop/pods", {
      status: 403,
      message: "GET /api/v1/namespaces/shop/pods: 403 Forbidden: see policy.verifyDns of shop.acme-corp.com at 8.8.8.8",
      text: '{"names":[{"name":"shop.acme-corp.com"}]}',
    });
    assert.doesNotMatch(`${path}${message}${text}`, /shop|acme|8\.8\.8\.8/);
    assert.match(path, /^\/api\/v1\/namespaces\/n\d+\/pods$/);
    assert.match(message ?? "", /403 Forbidden: see policy\.verifyDns of /);
  });
});

describe("status --from has the same result after redaction", () => {
  const files = useFiles();

  const read = async (documents: readonly string[]): Promise<Dump> =>
    readDump(await files.file("cluster.yaml", documents.join("\n---\n")));
  const resultOf = ({ names }: FullStatus) =>
    names.map(({ target, reason }) => `${target === undefined ? "refused" : "mapped"} ${reason?.code}`).sort();

  for (const file of globSync("*.yaml", { cwd: FOLDER }).sort()) {
    test(file, async () => {
      const [, ...objects] = parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((one) => one.toJS());
      const dump = await read([{ apiVersion: DUMP_VERSION, kind: "Dump" }, ...objects].map((each) => stringify(each)));
      const lines = [...dumpLines(await recordCluster(dump.client, { ...dump.head, now: dump.time }), true)];
      assert.deepEqual(resultOf(await statusOfDump(await read(lines))), resultOf(await statusOfDump(dump)));
    });
  }
});
