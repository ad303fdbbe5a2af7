import assert from "node:assert/strict";
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { type TestContext, test } from "node:test";
import { connectOptionsFrom, isInPod } from "./connect.ts";

const TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const IN_POD = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "6443" };

/** Makes only these files exist. */
function exist(t: TestContext, ...files: string[]): void {
  t.mock.method(fs, "existsSync", (path: string) => files.includes(path));
  syncBuiltinESMExports();
  t.after(() => {
    t.mock.restoreAll();
    syncBuiltinESMExports();
  });
}

test("a process is in a pod if it has a service account token and the API server's address", (t) => {
  exist(t, TOKEN);
  assert.deepEqual([isInPod(IN_POD), isInPod({ KUBERNETES_SERVICE_HOST: "" }), isInPod({})], [true, false, false]);
  exist(t);
  assert.equal(isInPod(IN_POD), false);
});

test("the order is: a flag, KUBECONFIG, the pod's service account, the user's kubeconfig", (t) => {
  exist(t, TOKEN, "/home/me/.kube/config");
  const env = { KUBECONFIG: "b", HOME: "/home/me", ...IN_POD };
  const { KUBECONFIG: _, ...inPod } = env;
  assert.deepEqual(connectOptionsFrom(env, { kubeconfig: "a", context: "c" }), {
    ...{ kubeconfig: "a", setBy: "--kubeconfig", context: "c" },
  });
  assert.deepEqual(connectOptionsFrom(env, { context: "c" }), {
    ...{ kubeconfig: "b", setBy: "KUBECONFIG", context: "c" },
  });
  assert.deepEqual(connectOptionsFrom(env, { kubeconfig: "" }), { kubeconfig: "b", setBy: "KUBECONFIG" });
  assert.deepEqual(connectOptionsFrom(inPod), { inCluster: { host: "10.96.0.1", port: "6443" } });
  assert.deepEqual(connectOptionsFrom({ KUBERNETES_SERVICE_HOST: "10.96.0.1" }), {
    inCluster: { host: "10.96.0.1", port: "443" },
  });
  assert.deepEqual(connectOptionsFrom(inPod, { as: "jane", requestTimeout: 5 }), {
    inCluster: { host: "10.96.0.1", port: "6443" },
    as: "jane",
    timeoutMs: 5_000,
  });
  const home = { kubeconfig: "/home/me/.kube/config" };
  assert.deepEqual(connectOptionsFrom({ HOME: "/home/me" }), home);
  assert.deepEqual(connectOptionsFrom({ HOME: "/home/me" }, { context: "c" }), { ...home, context: "c" });
});

test("without any of them there is no cluster", (t) => {
  exist(t);
  for (const env of [{}, { HOME: "" }, { HOME: "/home/me" }, IN_POD])
    assert.throws(() => connectOptionsFrom(env), { code: "config-invalid", message: /no cluster configured/ });
});
