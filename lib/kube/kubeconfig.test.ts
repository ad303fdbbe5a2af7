import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, test } from "node:test";
import { stringify } from "yaml";
import { loadKubeconfig } from "./kubeconfig.ts";

const folder = mkdtempSync(join(tmpdir(), "switchback-kubeconfig-"));
after(() => rmSync(folder, { recursive: true }));

const base64 = (text: string) => Buffer.from(text).toString("base64");

interface Entries {
  readonly cluster?: object;
  readonly user?: object;
  readonly context?: object;
  /** The current context. Default: the context with this name. */
  readonly current?: string;
}

/** Writes a kubeconfig. Its cluster, user and context all have this name. */
function write(name: string, { cluster, user = {}, context, current = name }: Entries = {}): string {
  const path = join(folder, `${name}.yaml`);
  const content = {
    clusters: [{ name, cluster: { server: `https://${name}.test/prefix`, ...cluster } }],
    users: [{ name, user }],
    contexts: [{ name, context: { cluster: name, user: name, ...context } }],
    "current-context": current,
  };
  writeFileSync(path, stringify(content));
  return path;
}

async function accessOf(path: string, context?: string) {
  const { server, from: _from, ...rest } = await (await loadKubeconfig(path, { context })).access();
  return { server: server.href, ...rest };
}

test("the namespace comes from the context, and is `default` otherwise", async () => {
  assert.equal((await loadKubeconfig(write("a"))).namespace, "default");
  assert.equal((await loadKubeconfig(write("a", { context: { namespace: "shop" } }))).namespace, "shop");
});

for (const [what, entries, headers, tls] of [
  ["nothing", {}, {}, {}],
  ["a token", { user: { token: "secret" } }, { authorization: "Bearer secret" }, {}],
  [
    "a name and a password",
    { user: { username: "me", password: "pä:ss" } },
    { authorization: `Basic ${base64("me:pä:ss")}` },
    {},
  ],
  ["a server name", { cluster: { "tls-server-name": "api.test" } }, {}, { servername: "api.test" }],
  ["no verification", { cluster: { "insecure-skip-tls-verify": true } }, {}, { rejectUnauthorized: false }],
] as const) {
  test(`access with ${what}`, async () => {
    assert.deepEqual(await accessOf(write("a", entries)), { server: "https://a.test/prefix", headers, tls });
  });
}

test("certificate files are relative to the kubeconfig; an exec plugin gives a token and a certificate", async () => {
  for (const name of ["ca", "cert", "key"]) writeFileSync(join(folder, `${name}.pem`), `the ${name}`);
  const path = write("a", {
    cluster: { "certificate-authority": "ca.pem" },
    user: { "client-certificate": "cert.pem", "client-key": "key.pem" },
  });
  const tls = { ca: Buffer.from("the ca"), cert: Buffer.from("the cert"), key: Buffer.from("the key") };
  assert.deepEqual(await accessOf(path), { server: "https://a.test/prefix", headers: {}, tls });
  const status = { token: "of-exec", clientCertificateData: "exec-cert", clientKeyData: "exec-key" };
  const args = ["--eval", `console.log(${JSON.stringify(JSON.stringify({ status }))})`];
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command: process.execPath, args };
  assert.deepEqual(await accessOf(write("b", { user: { exec } })), {
    server: "https://b.test/prefix",
    headers: { authorization: "Bearer of-exec" },
    tls: { cert: "exec-cert", key: "exec-key" },
  });
});

test("without a user the CA still counts", async () => {
  for (const user of ["", undefined]) {
    const path = write("a", { cluster: { "certificate-authority-data": base64("ca") }, context: { user } });
    assert.deepEqual((await accessOf(path)).tls, { ca: Buffer.from("ca") });
  }
});

test("a file without a mapping is refused", async () => {
  const path = join(folder, "other");
  for (const content of ["", "just text", "null"]) {
    writeFileSync(path, content);
    await assert.rejects(loadKubeconfig(path), { code: "config-invalid" }, content);
  }
});

test("access contains its origin", async () => {
  const path = write("a");
  const { from } = await (await loadKubeconfig(path)).access();
  assert.deepEqual(from, { context: "a", what: `context "a" of kubeconfig ${path}` });
});

test("a proxy has its own agent", async () => {
  const { agent, ...rest } = await accessOf(write("a", { cluster: { "proxy-url": "http://127.0.0.1:3128" } }));
  assert.equal(typeof agent, "object");
  assert.deepEqual(rest, { server: "https://a.test/prefix", headers: {}, tls: {} });
});

test("unreadable credentials are an error that names the context", async () => {
  const command = join(folder, "absent");
  const exec = { apiVersion: "client.authentication.k8s.io/v1", command, interactiveMode: "Never" };
  const loaded = await loadKubeconfig(write("a", { user: { exec } }));
  await assert.rejects(loaded.access(), {
    code: "config-invalid",
    message: /^the credentials of context "a" of kubeconfig \S+a\.yaml cannot be had from the command "\S+absent"$/,
  });
});

test("of several files, the first one that sets a value wins, and entries are merged from all", async () => {
  const [a, b] = [write("a", { user: { token: "of a" } }), write("b", { user: { token: "of b" } })];
  const both = ["", join(folder, "absent.yaml"), a, b].join(delimiter);
  assert.equal((await accessOf(both)).server, "https://a.test/prefix");
  assert.deepEqual(await accessOf(both, "b"), {
    server: "https://b.test/prefix",
    headers: { authorization: "Bearer of b" },
    tls: {},
  });
  const [none, other] = [write("c", { current: "" }), write("d")];
  assert.equal((await accessOf([none, other].join(delimiter))).server, "https://d.test/prefix");
});

test("a context that is missing, or whose cluster is missing, is an error that lists the known ones", async () => {
  const dangling = write("e", { context: { cluster: "gone" } });
  for (const [path, context, text] of [
    [write("a"), "prod", `kubeconfig ${join(folder, "a.yaml")}: no context "prod"; available: a`],
    [dangling, undefined, `kubeconfig ${dangling}: no context "e"; available: e`],
  ] as const) {
    await assert.rejects(loadKubeconfig(path, { context }), { code: "config-invalid", message: text });
  }
  const empty = join(folder, "empty.yaml");
  writeFileSync(empty, stringify({ clusters: [], users: [], contexts: [] }));
  await assert.rejects(loadKubeconfig(empty), { message: `kubeconfig ${empty}: no context ""; available: none` });
  const missing = { code: "config-invalid", message: "KUBECONFIG /a:/b: there is no such file" };
  await assert.rejects(loadKubeconfig("/a:/b", { setBy: "KUBECONFIG" }), missing);
});
