import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, afterEach, before, describe, it } from "node:test";
import type { TLSSocket } from "node:tls";
import { promisify } from "node:util";
import { stringify } from "yaml";
import { describeError, hasCode } from "#lib/errors/errors.ts";
import { createTestCa, type TestCa } from "#test/cluster/pki.ts";
import { type FakeApi, type FakeCall, fakeApi, json, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { type ConnectedClient, connect } from "./connect.ts";
import type { InCluster } from "./credentials.ts";

let folder: string;
let ca: TestCa;
let api: FakeApi;
let client: ConnectedClient | undefined;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "switchback-connect-"));
  ca = createTestCa("one");
});
after(() => rm(folder, { recursive: true }));
afterEach(async () => {
  client?.close();
  await api?.close();
});

const file = (name: string) => join(folder, name);

async function serve(respond: Responder, by: TestCa = ca, port?: number): Promise<void> {
  const tls = { ...by.serving(["127.0.0.1"]), ca: ca.cert };
  api = await fakeApi(respond, { tls, ...(port === undefined ? {} : { port }) });
}

/** Accepts only one bearer token. */
const accepting =
  (token: () => string): Responder =>
  (call) =>
    call.headers.authorization === `Bearer ${token()}` ? json({})(call) : refuse(401, "Unauthorized")(call);

const tokens = () => api.calls.map(({ headers }) => headers.authorization);

describe("in a pod", () => {
  let pod: InCluster;

  async function inPod(now?: () => number): Promise<ConnectedClient> {
    pod = { host: "127.0.0.1", port: api.url.port, folder: file("") };
    await writeFile(file("token"), "first\n");
    await writeFile(file("ca.crt"), ca.cert);
    await writeFile(file("namespace"), "own");
    client = await connect({ inCluster: pod, userAgent: "switchback/test", ...(now ? { now } : {}) });
    return client;
  }

  it("uses the token, trusts the CA and has the pod's namespace", async () => {
    await serve(accepting(() => "first"));
    const { get, namespace, server } = await inPod();
    await get("/version");
    assert.deepEqual([namespace, server], ["own", api.url.href]);
    assert.equal(api.calls[0]?.headers["user-agent"], "switchback/test");
    const ipv6 = await connect({ inCluster: { ...pod, host: "fd00::1", port: "6443" } });
    assert.equal(ipv6.server, "https://[fd00::1]:6443/");
    ipv6.close();
  });

  it("reloads a rejected token without an error for the caller", async () => {
    await serve(accepting(() => "second"));
    const { get } = await inPod();
    await writeFile(file("token"), "second");
    await get("/version");
    await get("/version");
    assert.deepEqual(tokens(), ["Bearer first", "Bearer second", "Bearer second"]);
  });

  it("returns the 401 if the reloaded token is refused too", async () => {
    await serve(accepting(() => "other"));
    const { get } = await inPod();
    await assert.rejects(get("/version"), { code: "kube-status", status: 401 });
    assert.equal(api.calls.length, 2);
  });

  it("does not reload it on every 401", async () => {
    let time = 0;
    await serve(accepting(() => "second"));
    const { get } = await inPod(() => time);
    await assert.rejects(get("/version"), { status: 401 });
    await writeFile(file("token"), "second");
    time = 4_999;
    await assert.rejects(get("/version"), { status: 401 });
    time = 5_000;
    await get("/version");
  });

  it("reloads the token after a minute", async () => {
    let time = 0;
    await serve(json({}));
    const { get } = await inPod(() => time);
    await get("/version");
    await writeFile(file("token"), "second");
    time = 59_999;
    await get("/version");
    time = 60_000;
    await get("/version");
    assert.deepEqual(tokens(), ["Bearer first", "Bearer first", "Bearer second"]);
  });

  it("keeps its token while the file is missing or empty", async () => {
    let time = 0;
    await serve(json({}));
    const { get } = await inPod(() => time);
    for (const trouble of [() => rm(file("token")), () => writeFile(file("token"), "")]) {
      await trouble();
      time += 60_000;
      await get("/version");
    }
    assert.deepEqual(tokens(), ["Bearer first", "Bearer first"]);
  });

  it("names the missing file", async () => {
    await serve(json({}));
    await inPod();
    await rm(file("ca.crt"));
    await assert.rejects(connect({ inCluster: pod }), (error) => {
      assert.match(describeError(error), /ca\.crt cannot be read/);
      return hasCode(error, "config-invalid");
    });
  });

  it("does not load the kubeconfig library", async () => {
    await serve(json({}));
    await inPod();
    const script = `
      import { registerHooks } from "node:module";
      const loaded = [];
      registerHooks({ load: (url, context, next) => { loaded.push(url); return next(url, context); } });
      const { connect } = await import(${JSON.stringify(new URL("connect.ts", import.meta.url).href)});
      const client = await connect({ inCluster: ${JSON.stringify(pod)} });
      await client.get("/version");
      client.close();
      process.stdout.write(JSON.stringify(loaded));
    `;
    const run = promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script]);
    const loaded = JSON.parse((await run).stdout) as string[];
    assert.ok(loaded.some((url) => url.endsWith("/kube/transport.ts")));
    assert.deepEqual(
      loaded.filter((url) => url.includes("/node_modules/")),
      [],
    );
  });
});

describe("from a kubeconfig", () => {
  const base64 = (text: string) => Buffer.from(text).toString("base64");

  async function kubeconfig(name: string, user: object, context = "one"): Promise<string> {
    const content = {
      clusters: [{ name: context, cluster: { server: api.url.href, "certificate-authority-data": base64(ca.cert) } }],
      users: [{ name: context, user }],
      contexts: [{ name: context, context: { cluster: context, user: context, namespace: `in-${context}` } }],
      "current-context": context,
    };
    await writeFile(file(name), stringify(content));
    return file(name);
  }

  it("uses a token", async () => {
    await serve(accepting(() => "secret"));
    client = await connect({ kubeconfig: await kubeconfig("token.yaml", { token: "secret" }) });
    await client.get("/version");
    assert.equal(client.namespace, "in-one");
  });

  it("uses a client certificate", async () => {
    let subject: unknown;
    await serve((call: FakeCall) => {
      subject = (call.socket as TLSSocket).getPeerCertificate().subject.CN;
      return json({})(call);
    });
    const { cert, key } = ca.client("someone", []);
    const user = { "client-certificate-data": base64(cert), "client-key-data": base64(key) };
    client = await connect({ kubeconfig: await kubeconfig("cert.yaml", user) });
    await client.get("/version");
    assert.equal(subject, "someone");
  });

  it("runs an exec plugin, and runs it again when its token is rejected", async () => {
    await serve(accepting(() => "run-2"));
    await writeFile(file("count"), "");
    // Each run appends a character. The token contains the number of characters.
    const script = `
      const { appendFileSync, readFileSync } = require("node:fs");
      appendFileSync(${JSON.stringify(file("count"))}, "x");
      const token = "run-" + readFileSync(${JSON.stringify(file("count"))}, "utf8").length;
      const apiVersion = "client.authentication.k8s.io/v1";
      console.log(JSON.stringify({ apiVersion, kind: "ExecCredential", status: { token } }));
    `;
    const exec = {
      apiVersion: "client.authentication.k8s.io/v1",
      command: process.execPath,
      args: ["--eval", script],
      interactiveMode: "Never",
    };
    client = await connect({ kubeconfig: await kubeconfig("exec.yaml", { exec }) });
    await client.get("/version");
    await client.get("/version");
    assert.deepEqual(tokens(), ["Bearer run-1", "Bearer run-2", "Bearer run-2"]);
  });
});
