import assert from "node:assert/strict";
import { once } from "node:events";
import { cp, mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { table } from "../cli/table.ts";
import { hasCode } from "../errors/errors.ts";
import { runDemo } from "./run.ts";

const EXAMPLES = fileURLToPath(new URL("../examples/demo", import.meta.url));

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "switchback-demo-test-"));
  await cp(EXAMPLES, directory, { recursive: true });
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function output(keep?: Promise<void>, onPart: (part: string) => void = () => {}): Promise<string> {
  let text = "";
  const print = (part: string) => {
    text += part;
    onPart(part);
  };
  await runDemo({ directory, keep: keep !== undefined }, { print, table }, keep ?? Promise.resolve());
  return text;
}

describe("the demo", () => {
  it("shows the failure, the fix and an update of the map, and then exits", async () => {
    const text = await output();
    assert.match(
      text,
      /cert-manager\/cert-manager-7d9f8 +shop\.example\.com +socket hang up +200 Ingress shop\/web; client 127\.0\.0\.1:\d+/,
    );
    assert.match(text, /cert-manager-7d9f8 +checkout\.example\.com +socket hang up +200 HTTPRoute shop\/checkout;/);
    assert.match(text, /checkout\.example\.net .*not mapped \(no-matching-hostname\)/);
    assert.match(text, /shop\/web-5c6b7 +shop\.example\.com +socket hang up +no alias/);
    assert.match(text, /shop\/smoke-test +shop\.example\.com +socket hang up +no alias/);
    assert.match(text, /broken header: "GET \/ HTTP\/1\.1" while reading PROXY protocol/);
    assert.match(text, /acme-v02\.api\.letsencrypt\.org .*not mapped \(acme-server\)/);
    assert.match(text, /added\.example\.com is in the webhook's map after \d+ ms/);
  });

  it("reports file, line, path and reason of each problem in the files, and the rest works", async () => {
    await writeFile(join(directory, "broken.yaml"), "kind: [\n");
    const odd = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: odd, namespace: shop, annotations: { switchback.dev/ingore: "true" } }
spec:
  rules:
    - host: "a b.example.com"
    - host: fine.example.com
`;
    await writeFile(join(directory, "odd.yaml"), odd);
    const text = await output();
    assert.match(text, /! broken\.yaml:\d: .*\(yaml-invalid\)/);
    assert.match(
      text,
      /! odd\.yaml:3: Ingress shop\/odd: metadata\.annotations\["switchback\.dev\/ingore"\]: .*accepted are .*\(unknown-key\)/,
    );
    assert.match(text, /! odd\.yaml:6: Ingress shop\/odd: spec\.rules\[0\]\.host: .*\(name-not-rfc1123\)/);
    assert.match(text, /cert-manager-7d9f8 +fine\.example\.com +socket hang up +200/);
  });

  it("sanitizes what a tenant wrote", async () => {
    const evil = 'kind: Ingress\nmetadata: { name: evil }\nspec: { rules: [{ host: "\\e[2Jx.example.com" }] }\n';
    await writeFile(join(directory, "evil.yaml"), evil);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character must not be printed
    assert.doesNotMatch(await output(), /\u001b/);
  });

  it("with --keep runs until it is stopped, and then has stopped its components", async () => {
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
