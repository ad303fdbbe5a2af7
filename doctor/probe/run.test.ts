import assert from "node:assert/strict";
import { test } from "node:test";
import { type FakeCall, fakeApi, json, type Responder, refuse } from "../../test/fakes/kube-api.ts";
import type { ProbeResult } from "./result.ts";
import { runProbe } from "./run.ts";

const RESULT: ProbeResult = { dials: [], lookups: [{ name: "a.example.com", addresses: ["192.0.2.1"] }] };
const PLAN = { dials: [], names: ["a.example.com"] };

interface Answers {
  readonly create?: Responder;
  readonly pod?: Responder;
  readonly log?: Responder;
  readonly remove?: Responder;
}

const text =
  (body: string): Responder =>
  ({ response }) =>
    void response.end(body);

/** A probe against an API server that answers like this; everything that was asked, and what came of it. */
async function run(answers: Answers, signal = new AbortController().signal) {
  const {
    create = json({}, 201),
    pod = json({ status: { phase: "Succeeded" } }),
    log = text(JSON.stringify(RESULT)),
  } = answers;
  const api = await fakeApi(async (call) => {
    if (call.method === "POST") return await create(call);
    if (call.method === "DELETE") return await (answers.remove ?? json({}))(call);
    return await (call.path.endsWith("/log") ? log(call) : pod(call));
  });
  const said: string[] = [];
  const image = { image: "example.com/switchback:1", pullPolicy: "IfNotPresent" };
  const options = {
    client: api.client,
    namespace: "default",
    image,
    plan: PLAN,
    log: (line: string) => said.push(line),
    signal,
  };
  try {
    const outcome = await runProbe(options).catch((error: Error) => error);
    return { outcome, said: said.join("\n"), calls: api.calls };
  } finally {
    await api.close();
  }
}

/** The pod that was asked for, and the deletions. */
function podOf(calls: readonly FakeCall[]) {
  const created = calls.find(({ method }) => method === "POST");
  const pod = JSON.parse(created?.body ?? "{}");
  return { pod, deleted: calls.filter(({ method }) => method === "DELETE").map(({ path }) => path) };
}

test("the pod is restricted, has no token and no mapping, ends by itself, and is removed", async () => {
  const { outcome, calls } = await run({});
  assert.deepEqual(outcome, { known: true, value: RESULT });
  const { pod, deleted } = podOf(calls);
  assert.deepEqual(deleted, [`/api/v1/namespaces/default/pods/${pod.metadata.name}`]);
  assert.equal(pod.metadata.labels["switchback.dev/inject"], "disabled");
  const { activeDeadlineSeconds, automountServiceAccountToken, restartPolicy, securityContext, containers } = pod.spec;
  assert.deepEqual([activeDeadlineSeconds, automountServiceAccountToken, restartPolicy], [60, false, "Never"]);
  assert.deepEqual(securityContext, { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
  const [container] = containers;
  assert.deepEqual(container.securityContext, {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  assert.deepEqual(Object.keys(container.resources.limits), ["cpu", "memory"]);
  assert.deepEqual([container.args[0], JSON.parse(container.args[1])], ["probe", PLAN]);
});

test("waits for a pod that starts slowly", async () => {
  let asked = 0;
  const pod: Responder = (call) => json({ status: { phase: ++asked < 3 ? "Pending" : "Succeeded" } })(call);
  const { outcome, said } = await run({ pod });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  assert.match(said, /probe: pending/);
});

const waiting = (reason: string) =>
  json({ status: { phase: "Pending", containerStatuses: [{ state: { waiting: { reason } } }] } });

for (const [what, answers, code, expected] of [
  ["an image that cannot be had", { pod: waiting("ErrImagePull") }, "probe-not-started", /ErrImagePull/],
  [
    "a deadline that passed",
    { pod: json({ status: { phase: "Failed", reason: "DeadlineExceeded" } }) },
    "probe-timeout",
    /60 s/,
  ],
  [
    "a pod that failed",
    { pod: json({ status: { phase: "Failed" } }), log: text("no such command") },
    "probe-failed",
    /no such command/,
  ],
  ["an answer of another version", { log: text("{}") }, "probe-unreadable", /\{\}/],
  ["an answer that is no JSON", { log: text("node: not found") }, "probe-unreadable", /node: not found/],
  ["an API server that fails", { log: refuse(500, "InternalError") }, "probe-failed", /500/],
  ["a pod that is not let in", { create: refuse(403, "violates PodSecurity") }, "probe-failed", /PodSecurity/],
  [
    "no right to make pods",
    { create: refuse(403, 'cannot create resource "pods"') },
    "right-missing",
    /create pods in the namespace default/,
  ],
] as const) {
  test(`${what} yields an unknown fact, and the pod is removed`, async () => {
    const { outcome, calls } = await run(answers);
    assert.ok(!(outcome instanceof Error) && !outcome.known);
    assert.equal(outcome.reason.code, code);
    assert.match(outcome.reason.text, expected);
    assert.equal(podOf(calls).deleted.length, 1);
  });
}

test("throws when aborted, and removes the pod even while it is being created", async () => {
  const abort = (by: AbortController) => by.abort(new Error("SIGINT"));
  for (const answersOf of [
    (by: AbortController): Answers => ({
      pod: (call) => {
        call.response.once("finish", () => abort(by));
        return waiting("ContainerCreating")(call);
      },
    }),
    (by: AbortController): Answers => ({ create: () => abort(by) }),
  ]) {
    const aborted = new AbortController();
    const { outcome, calls } = await run(answersOf(aborted), aborted.signal);
    assert.ok(outcome instanceof Error);
    assert.match(String(outcome), /SIGINT/);
    assert.equal(podOf(calls).deleted.length, 1);
  }
});

test("names a pod that cannot be removed", async () => {
  const { outcome, said } = await run({ remove: refuse(500, "InternalError") });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  assert.match(said, /cannot remove pod default\/switchback-doctor-\w+ .*ends by itself within 60 s/);
});
