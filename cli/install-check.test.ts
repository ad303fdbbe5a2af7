import assert from "node:assert/strict";
import { afterEach, type TestContext, test } from "node:test";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { installCheck } from "./install-check.ts";

const POD = "the dry run of an opted-in pod in namespace probes";
const UNTOUCHED = { status: 201, body: { metadata: {} } };
const INJECTED = { status: 201, body: { metadata: { annotations: { "switchback.dev/revision": "1" } } } };
const DENIED = { status: 403, body: { kind: "Status", message: "exceeded quota" } };

const files = useFiles();
let api: FakeApi | undefined;
afterEach(() => api?.close());

/** Runs the check against an API server that gives these answers, then repeats the last one. */
async function check(t: TestContext, answers: readonly { status: number; body: object }[], timeout = 9) {
  const server = new MemoryServer();
  server.onCall = () => answers[Math.min(server.calls.length, answers.length) - 1];
  api = await fakeApi(server.respond);
  const kubeconfig = await files.kubeconfig(api.url);
  const time = skipWaits(t);
  const { context, written } = captured();
  const done = installCheck({ namespace: "ours", probeNamespace: "probes", timeout, kubeconfig }, context);
  return { done, written, time, server };
}

test("waits until the API server calls the webhook, and creates pods only as dry runs", async (t) => {
  const { done, written, time, server } = await check(t, [DENIED, UNTOUCHED, UNTOUCHED, INJECTED]);
  await done;
  assert.deepEqual(time.waits, [2_000, 2_000, 2_000]);
  const [refused, ...others] = written.stdout.trim().split("\n");
  assert.match(refused ?? "", /was rejected: .*exceeded quota/);
  assert.deepEqual(others, [`${POD} was not injected yet`, `the webhook answers: ${POD} was injected`]);
  const { calls } = server;
  assert.ok(calls.every(({ method, query }) => method === "POST" && query.get("dryRun") === "All"));
});

test("fails after the timeout, and reports what to look at", async (t) => {
  const { done, time } = await check(t, [UNTOUCHED]);
  await assert.rejects(done, { code: "webhook-silent", message: /for 9 s\. Look at kubectl -n ours get pods/ });
  assert.equal(time.elapsed(), 10_000);
});

test("passes if something else denies the pod for 20 seconds, because the result is then unknown", async (t) => {
  const { done, written, time } = await check(t, [UNTOUCHED, DENIED], 60);
  await done;
  assert.equal(time.elapsed(), 20_000);
  assert.match(written.stdout, /\nnot checked: the result of the dry run of .* is unknown: .*exceeded quota\n$/);
});
