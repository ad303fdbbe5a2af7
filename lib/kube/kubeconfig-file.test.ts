import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { RequestOptions } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { promisify } from "node:util";
import { KubeConfig } from "@kubernetes/client-node";
import { stringify } from "yaml";
import { KubeconfigFile } from "./kubeconfig-file.ts";

// The expected values equal the library's, except where the library is wrong.

const folder = mkdtempSync(join(tmpdir(), "switchback-kubeconfig-file-"));
after(() => rmSync(folder, { recursive: true }));
for (const name of ["ca", "cert", "key"]) writeFileSync(join(folder, `${name}.pem`), `the ${name}`);

const script = `console.log(JSON.stringify({ status: {
  token: "of-exec", clientCertificateData: "exec-cert", clientKeyData: "exec-key" } }))`;
const exec = { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args: ["--eval", script] };

function write(cluster: object, user?: object): string {
  const path = join(folder, "config");
  const content = {
    clusters: [{ name: "c", cluster: { server: "https://c.test/", ...cluster } }],
    users: user === undefined ? [] : [{ name: "u", user }],
    contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
    "current-context": "x",
  };
  writeFileSync(path, stringify(content));
  return path;
}

async function optionsOf(config: KubeconfigFile | KubeConfig, path: string) {
  config.loadFromFile(path);
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { agent: _agent, ...rest } = options;
  return JSON.parse(JSON.stringify(rest));
}

describe("a kubeconfig is read as the library reads it:", () => {
  for (const [what, cluster, user] of [
    ["a token", {}, { token: "t" }],
    [
      "files relative to it",
      { "certificate-authority": "ca.pem" },
      { "client-certificate": "cert.pem", "client-key": "key.pem" },
    ],
    [
      "data",
      { "certificate-authority-data": "Y2E=" },
      { "client-certificate-data": "Y2VydA==", "client-key-data": "a2V5" },
    ],
    ["impersonation", {}, { as: "somebody", token: "t" }],
    ["a name and a password", {}, { username: "u", password: "p" }],
    ["a server name, and no verification", { "tls-server-name": "s", "insecure-skip-tls-verify": true }, {}],
    ["an exec plugin", {}, { exec }],
    ["an exec plugin beside a token", {}, { exec, token: "t" }],
    [
      "plain HTTP where TLS would not be checked either",
      { server: "http://c.test", "insecure-skip-tls-verify": true },
      {},
    ],
    [
      "a file with a token, of an auth provider",
      {},
      { "auth-provider": { name: "x", config: { tokenFile: join(folder, "ca.pem") } } },
    ],
    ["a proxy", { "proxy-url": "http://127.0.0.1:3128", "certificate-authority": "ca.pem" }, { token: "t" }],
  ] as const) {
    it(what, async () => {
      const path = write(cluster, user);
      assert.deepEqual(await optionsOf(new KubeconfigFile(), path), await optionsOf(new KubeConfig(), path));
    });
  }

  it("plain HTTP is refused in all other cases", async () => {
    const path = write({ server: "http://c.test" }, {});
    await assert.rejects(optionsOf(new KubeConfig(), path));
    await assert.rejects(optionsOf(new KubeconfigFile(), path), /insecure-skip-tls-verify/);
  });
});

it("without a user the CA still counts, unlike in the library", async () => {
  const { ca } = await optionsOf(new KubeconfigFile(), write({ "certificate-authority": "ca.pem" }));
  assert.equal(Buffer.from(ca).toString(), "the ca");
});

it("a file without a mapping is refused", () => {
  const path = join(folder, "empty");
  for (const content of ["", "just text", "null"]) {
    writeFileSync(path, content);
    assert.throws(() => new KubeconfigFile().loadFromFile(path), /no clusters, users and contexts/);
  }
});

it("does not load the library's API classes unless it needs them", async () => {
  const loaded = async (path: string) => {
    const script = `
      import { registerHooks } from "node:module";
      let count = 0;
      registerHooks({
        load: (url, context, next) => { count += url.includes("/client-node/"); return next(url, context); },
      });
      const { loadKubeconfig } = await import(${JSON.stringify(new URL("kubeconfig.ts", import.meta.url).href)});
      await (await loadKubeconfig(${JSON.stringify(path)})).access();
      console.log(count);
    `;
    const run = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
    return Number(run.stdout);
  };
  assert.equal(await loaded(write({ "certificate-authority": "ca.pem" }, { exec })), 2);
  assert.ok((await loaded(write({ "proxy-url": "http://127.0.0.1:3128" }, {}))) > 100);
});
