import assert from "node:assert/strict";
import { afterEach, type TestContext, test } from "node:test";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { installCheck } from "./install-check.ts";

const CALLED = { status: 200, body: { metadata: {} } };
const SILENT = { status: 500, body: { kind: "Status", message: 'failed calling webhook "reachable.switchback.dev"' } };

const files = useFiles();
let api: FakeApi | undefined;
afterEach(() => api?.close());

/** Runs the check against an API server that gives these answers to dry runs, then repeats the last one. */
async function check(t: TestContext, answers: readonly { status: number; body: object }[]) {
  const server = new MemoryServer();
  let runs = 0;
  server.onCall = ({ method, query }) => {
    if (method === "GET") return CALLED;
    assert.equal(query.get("dryRun"), "All");
    runs += 1;
    return answers[Math.min(runs, answers.length) - 1];
  };
  api = await fakeApi(server.respond);
  const kubeconfig = await files.kubeconfig(api.url);
  const time = skipWaits(t);
  const { context, written } = captured();
  return { done: installCheck({ namespace: "ours", timeout: 9, kubeconfig }, context), written, time };
}

test("waits until the API server calls the webhook for a dry run, and says once why it does not", async (t) => {
  const { done, written, time } = await check(t, [SILENT, SILENT, CALLED]);
  await done;
  assert.deepEqual(time.waits, [2_000, 2_000]);
  const [problem, ...others] = written.stdout.trim().split("\n");
  assert.match(problem ?? "", /cannot call the webhook: .*reachable\.switchback\.dev/);
  assert.deepEqual(others, ["the API server calls the webhook"]);
});

test("fails after the timeout, and reports what to look at", async (t) => {
  const { done, time } = await check(t, [SILENT]);
  await assert.rejects(done, { code: "webhook-silent", message: /for 9 s\. Look at kubectl -n ours get pods/ });
  assert.equal(time.elapsed(), 10_000);
});
