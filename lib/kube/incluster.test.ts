import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { describeError } from "#lib/errors/errors.ts";
import { inClusterNamespace, loadInCluster } from "./incluster.ts";

const ROOT = "/var/run/secrets/kubernetes.io/serviceaccount";

function start(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "switchback-incluster-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  return {
    host: "10.96.0.1",
    port: 443,
    tokenFile: file("token", "secret\n"),
    caFile: file("ca", "the CA\n"),
    namespaceFile: file("namespace", " own \n"),
    file,
  };
}

test("access has the server, the token without white space, and the unchanged CA", async (t) => {
  const pod = start(t);
  const { server, ...rest } = await loadInCluster({ ...pod, port: "6443" });
  assert.equal(server.href, "https://10.96.0.1:6443/");
  assert.deepEqual(rest, {
    headers: { authorization: "Bearer secret" },
    tls: { ca: "the CA\n" },
    from: { what: "the pod's service account", ca: pod.caFile },
  });
  assert.equal((await loadInCluster({ ...pod, host: "fd00::1" })).server.href, "https://[fd00::1]/");
  assert.equal(await inClusterNamespace(pod), "own");
});

test("a file that is missing or empty is refused by name", async (t) => {
  const pod = start(t);
  const blank = pod.file("blank", " \n");
  for (const [load, text] of [
    [() => loadInCluster({ ...pod, tokenFile: blank }), `the service account file ${blank} is empty`],
    [
      () => loadInCluster({ ...pod, caFile: `${blank}/x` }),
      `the service account file ${blank}/x cannot be read: ENOTDIR`,
    ],
    [() => inClusterNamespace({ ...pod, namespaceFile: blank }), `the service account file ${blank} is empty`],
  ] as const) {
    await assert.rejects(load(), (error) => {
      assert.ok(describeError(error).startsWith(text), describeError(error));
      return (error as { code?: string }).code === "config-invalid";
    });
  }
});

test("by default the files are where the kubelet mounts them", async (t) => {
  const { host, port, tokenFile } = start(t);
  const pathOf = (error: unknown) => /file (\S+) /.exec(describeError(error))?.[1];
  for (const [load, path] of [
    [() => loadInCluster({ host, port }), `${ROOT}/token`],
    [() => loadInCluster({ host, port, tokenFile }), `${ROOT}/ca.crt`],
    [() => inClusterNamespace({ host, port }), `${ROOT}/namespace`],
  ] as const) {
    assert.equal(await load().then(() => path, pathOf), path);
  }
});
