import assert from "node:assert/strict";
import { once } from "node:events";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { hasCode } from "#lib/errors/errors.ts";
import { createOutput } from "../output.ts";
import { table } from "../table.ts";
import { runDemo } from "./run.ts";

const EXAMPLES = fileURLToPath(new URL("../../examples/demo", import.meta.url));

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "switchback-demo-test-"));
  await cp(EXAMPLES, directory, { recursive: true });
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function output(keep?: Promise<void>, onPart: (part: string) => void = () => {}): Promise<string> {
  let text = "";
  const stream = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      onPart(String(chunk));
      done();
    },
  });
  const demoOutput = { ...createOutput(stream), table };
  await runDemo({ directory, keep: keep !== undefined }, demoOutput, keep ?? Promise.resolve());
  return text;
}

const WHOLE = `1. The map from the objects in DIR

  name  from  leads to
  ---  ---  ---
  shop.example.com  Ingress shop/web  127.0.0.1
  api.example.com  Ingress shop/api  127.0.0.1
  acme-v02.api.letsencrypt.org  Ingress shop/greedy  not mapped (name-protected): "acme-v02.api.letsencrypt.org" belongs to a public ACME server and is never mapped
  *.example.com  Gateway shop/public  not mapped (wildcard): a hosts file cannot hold a wildcard: only pods with pod DNS get it
  checkout.example.com  HTTPRoute shop/checkout  127.0.0.1
  checkout.example.net  HTTPRoute shop/checkout  not mapped (no-matching-listener): no listener accepts this name; they accept "*.example.com"

2. Each pod goes through the webhook, as the API server sends it (HTTPS, verified against Switchback's CA)

  cert-manager/cert-manager-7d9f8: opted in by its namespace
    switchback.dev/injected: 127.0.0.1 api.example.com checkout.example.com shop.example.com
    switchback.dev/revision: HASH
    switchback.dev/owned: 127.0.0.1 x1 (HASH)
    /etc/hosts: 127.0.0.1  api.example.com checkout.example.com shop.example.com

  shop/smoke-test: opted in by its pod
    switchback.dev/hosts: api.example.com
    switchback.dev/injected: 127.0.0.1 api.example.com
    switchback.dev/revision: HASH
    switchback.dev/owned: 127.0.0.1 x1 (HASH)
    /etc/hosts: 192.0.2.7  legacy.example.com
    /etc/hosts: 127.0.0.1  api.example.com

  shop/web-5c6b7: did not opt in: the API server does not call the webhook

3. The same request from each pod, to each name: directly, as kube-proxy short-circuits it, and through the alias

  pod  name  direct  through the alias
  ---  ---  ---  ---
  cert-manager/cert-manager-7d9f8  shop.example.com  socket hang up  200 Ingress shop/web; client 127.0.0.1:PORT
  cert-manager/cert-manager-7d9f8  api.example.com  socket hang up  200 Ingress shop/api; client 127.0.0.1:PORT
  cert-manager/cert-manager-7d9f8  checkout.example.com  socket hang up  200 HTTPRoute shop/checkout; client 127.0.0.1:PORT
  shop/smoke-test  shop.example.com  socket hang up  no alias: direct
  shop/smoke-test  api.example.com  socket hang up  200 Ingress shop/api; client 127.0.0.1:PORT
  shop/smoke-test  checkout.example.com  socket hang up  no alias: direct
  shop/web-5c6b7  shop.example.com  socket hang up  no alias: direct
  shop/web-5c6b7  api.example.com  socket hang up  no alias: direct
  shop/web-5c6b7  checkout.example.com  socket hang up  no alias: direct

  the ingress controller's log: broken header: "GET / HTTP/1.1" while reading PROXY protocol

4. An Ingress is added

  added.example.com is in the webhook's map after N ms (revision HASH -> HASH)
  through the relay: 200 Ingress shop/added; client 127.0.0.1:PORT
`;

describe("the demo", () => {
  it("shows the failure, the fix and an update of the map, and then exits", async () => {
    const normalized = (await output())
      .replaceAll(directory, "DIR")
      .replaceAll(/\b[0-9a-f]{12}\b/g, "HASH")
      .replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT")
      .replaceAll(/after \d+ ms/g, "after N ms")
      // The column widths depend on the ports.
      .replaceAll(/-{3,}/g, "---")
      .replaceAll(/(?<=\S) {2,}/g, "  ");
    assert.equal(normalized, WHOLE);
  });

  it("reports the file and the reason of each problem in the files, and runs with the rest", async () => {
    await writeFile(join(directory, "broken.yaml"), "kind: [\n");
    const odd = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: odd, namespace: shop }
spec:
  rules:
    - host: "a b.example.com"
    - host: fine.example.com
`;
    await writeFile(join(directory, "odd.yaml"), odd);
    const text = await output();
    assert.match(text, /! broken\.yaml: document 1: .*\(yaml-invalid\)/);
    assert.match(text, /a b\.example\.com.* not mapped \(name-invalid\)/);
    assert.match(text, /cert-manager-7d9f8 +fine\.example\.com +socket hang up +200/);
  });

  it("escapes control characters from tenants", async () => {
    const evil = 'kind: Ingress\nmetadata: { name: evil }\nspec: { rules: [{ host: "\\e[2Jx.example.com" }] }\n';
    await writeFile(join(directory, "evil.yaml"), evil);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character must not be printed
    assert.doesNotMatch(await output(), /\u001b/);
  });

  it("prints a pod's name on one line, whatever characters it contains", async () => {
    const pod =
      'kind: Pod\nmetadata: { namespace: shop, name: "odd\\e[2J\\nforged: line" }\nspec: { containers: [] }\n';
    await writeFile(join(directory, "40-odd.yaml"), pod);
    const text = await output();
    assert.match(text, /^ {2}shop\/odd\\u001b\[2J\\u000aforged: line: /m);
    assert.doesNotMatch(text, /^forged/m);
  });

  it("with --keep runs until it is stopped, and then stops its components", async () => {
    const [stopped, relay] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()];
    const running = output(stopped.promise, (part) => {
      const port = /^relay on 127\.0\.0\.1:(\d+)\. Ctrl-C ends it\.\n$/.exec(part)?.[1];
      if (port !== undefined) relay.resolve(Number(port));
    });
    const port = await Promise.race([relay.promise, running.then(() => assert.fail("it has ended by itself"))]);
    const client = connect(port, "127.0.0.1");
    try {
      await once(client, "connect");
    } finally {
      client.destroy();
      stopped.resolve();
    }
    assert.match(await running, /Ctrl-C ends it/);
    await assert.rejects(once(connect(port, "127.0.0.1"), "connect"), { code: "ECONNREFUSED" });
  });

  for (const [what, prepare, message] of [
    ["a directory that is not there", () => rm(directory, { recursive: true }), /is not a readable directory/],
    ["a directory without pods", () => rm(join(directory, "30-pods.yaml")), /there is no pod and no workload/],
  ] as const) {
    it(`rejects ${what}`, async () => {
      await prepare();
      await assert.rejects(output(), (error) => hasCode(error, "input-invalid") && message.test(error.message));
    });
  }
});
