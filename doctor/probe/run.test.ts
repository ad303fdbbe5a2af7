import assert from "node:assert/strict";
import { test } from "node:test";
import { type FakeCall, fakeApi, json, type Responder, refuse } from "#test/fakes/kube-api.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { PROBE_PROGRAM } from "./program.ts";
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

/** Runs a probe against this API server. Returns all requests and the result. */
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

/** The created pod, and the deletions. */
function podOf(calls: readonly FakeCall[]) {
  const created = calls.find(({ method }) => method === "POST");
  const pod = JSON.parse(created?.body ?? "{}");
  return { pod, deleted: calls.filter(({ method }) => method === "DELETE").map(({ path }) => path) };
}

test("the pod is restricted, has no token and no mapping, ends by itself and is removed", async () => {
  const { outcome, calls, said } = await run({});
  assert.deepEqual(outcome, { known: true, value: RESULT });
  const { pod, deleted } = podOf(calls);
  const { name } = pod.metadata;
  assert.match(name, /^switchback-doctor-[0-9a-f]{10}$/);
  const path = `/api/v1/namespaces/default/pods/${name}`;
  assert.deepEqual(deleted, [path]);
  assert.deepEqual(
    calls.map((call) => `${call.method} ${call.path}`),
    ["POST /api/v1/namespaces/default/pods", `GET ${path}`, `GET ${path}/log`, `DELETE ${path}`],
  );
  assert.equal(
    said,
    `probe: creating pod default/${name} (image example.com/switchback:1)\nprobe: reading the result\nprobe: ` +
      "pod removed",
  );
  const [container] = pod.spec.containers;
  assert.deepEqual(container.command, ["node", "-e", PROBE_PROGRAM, JSON.stringify(PLAN)]);
  assert.deepEqual(pod, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: {
        "app.kubernetes.io/name": "switchback-doctor",
        "switchback.dev/inject": "disabled",
        "sidecar.istio.io/inject": "false",
      },
      annotations: { "linkerd.io/inject": "disabled", "sidecar.istio.io/inject": "false" },
    },
    spec: {
      restartPolicy: "Never",
      activeDeadlineSeconds: 60,
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
        runAsUser: 65_532,
        runAsGroup: 65_532,
      },
      containers: [
        {
          name: "probe",
          image: "example.com/switchback:1",
          imagePullPolicy: "IfNotPresent",
          command: container.command,
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          resources: { requests: { cpu: "50m", memory: "64Mi" }, limits: { cpu: "1", memory: "192Mi" } },
        },
      ],
    },
  });
});

test("waits for a pod that starts slowly: asks every 500 ms and reports each phase once", async (t) => {
  const { waits } = skipWaits(t);
  const phases = [undefined, "Pending", "Running", "Running", "Succeeded"];
  let asked = 0;
  const pod: Responder = (call) => json({ status: { phase: phases[asked++] } })(call);
  const { outcome, said } = await run({ pod });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  assert.deepEqual(said.split("\n").slice(1), [
    "probe: pending",
    "probe: running",
    "probe: reading the result",
    "probe: pod removed",
  ]);
  assert.deepEqual([asked, waits.filter((ms) => ms === 500).length], [5, 4]);
});

test("gives up on a pod that has not ended by its deadline, and reports its last state", async (t) => {
  const { elapsed } = skipWaits(t);
  const conditions = [
    { type: "Initialized", status: "False", message: "other" },
    { type: "PodScheduled", status: "True", message: "earlier" },
    { type: "PodScheduled", status: "False", message: "no node fits" },
  ];
  const { outcome, calls } = await run({ pod: json({ status: { conditions } }) });
  const text = "the probe pod did not end within 60 s: Pending, no node fits";
  assert.deepEqual(outcome, { known: false, reason: { code: "probe-timeout", text } });
  // It gives up when it first checks after the deadline.
  assert.equal(elapsed(), 60_500);
  assert.equal(podOf(calls).deleted.length, 1);
});

const waiting = (reason: string, message?: string) =>
  json({ status: { phase: "Pending", containerStatuses: [{ state: { waiting: { reason, message } } }] } });

for (const reason of [
  "ErrImagePull",
  "ImagePullBackOff",
  "ErrImageNeverPull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
]) {
  test(`does not wait after ${reason}`, async () => {
    const { outcome } = await run({ pod: waiting(reason, "why") });
    const text = `the probe pod cannot start: Pending, ${reason}, why`;
    assert.deepEqual(outcome, { known: false, reason: { code: "probe-not-started", text } });
  });
}

test("waits if a reason only resembles one of these", async (t) => {
  skipWaits(t);
  const answers = [waiting("ErrImagePullX"), waiting("XErrImagePull"), json({ status: { phase: "Succeeded" } })];
  const { outcome } = await run({ pod: (call) => answers.shift()?.(call) });
  assert.deepEqual(outcome, { known: true, value: RESULT });
});

const UNREADABLE = "the probe pod's output is not valid for this version: ";
for (const [what, answers, code, expected] of [
  [
    "a deadline that passed",
    { pod: json({ status: { phase: "Failed", reason: "DeadlineExceeded" } }) },
    "probe-timeout",
    "the probe pod did not end within 60 s",
  ],
  [
    "a pod that failed",
    { pod: json({ status: { phase: "Failed" } }), log: text(` ${"x".repeat(500)}no such command\n`) },
    "probe-failed",
    `the probe pod failed: ${"x".repeat(485)}no such command`,
  ],
  [
    "a pod that failed silently",
    { pod: json({ status: { phase: "Failed" } }), log: text("\n") },
    "probe-failed",
    "the probe pod failed: no output",
  ],
  ["an answer of another version", { log: text("{}") }, "probe-failed", `${UNREADABLE}{}`],
  [
    "an answer with more than it should have",
    { log: text(`${JSON.stringify({ ...RESULT, more: 1 })}${" ".repeat(300)}`) },
    "probe-failed",
    `${UNREADABLE}${JSON.stringify({ ...RESULT, more: 1 })}`,
  ],
  [
    "an answer that is no JSON",
    { log: text(`\n${"x".repeat(300)}`) },
    "probe-failed",
    `${UNREADABLE}${"x".repeat(200)}`,
  ],
  ["an API server that fails", { log: refuse(500, "InternalError") }, "probe-failed", /\/log: 500 InternalError/],
  ["a pod that is not let in", { create: refuse(403, "violates PodSecurity") }, "probe-failed", /PodSecurity/],
  [
    "a failure that only names RBAC",
    { create: refuse(500, 'cannot create resource "pods"') },
    "probe-failed",
    /cannot create resource/,
  ],
  [
    "no right to make pods",
    { create: refuse(403, 'cannot create resource "pods"') },
    "right-missing",
    "missing permission: create pods in the namespace default",
  ],
] as const) {
  test(`${what} yields an unknown fact, and the pod is removed`, async () => {
    const { outcome, calls } = await run(answers);
    assert.ok(!(outcome instanceof Error) && !outcome.known);
    assert.equal(outcome.reason.code, code);
    if (typeof expected === "string") assert.equal(outcome.reason.text, expected);
    else assert.match(outcome.reason.text, expected);
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

test("reports the name of a pod that cannot be removed", async () => {
  const { outcome, said } = await run({ remove: refuse(500, "InternalError") });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  assert.match(said, /cannot remove pod default\/switchback-doctor-\w+ .*ends by itself within 60 s/);
});

test("a pod that no longer exists needs no removal", async () => {
  const { outcome, said } = await run({ remove: refuse(404, "NotFound") });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  assert.match(said, /reading the result$/);
});

test("reads every outcome of a dial and of a lookup", async () => {
  const kinds = ["answered", "misread", "closed", "refused", "timeout", "silent", "unreachable"] as const;
  const dial = { service: "a/b", servicePort: 80, address: "192.0.2.1", port: 80, name: "n" };
  const ways = [
    { via: "service", speaks: "http", header: "none" },
    { via: "balancer", speaks: "tls", header: "v1" },
    { via: "front", speaks: "tls", header: "v2" },
  ] as const;
  const dials = kinds.flatMap((kind) => ways.map((way) => ({ ...dial, ...way, outcome: { kind, detail: "d" } })));
  const lookups = [{ name: "a", addresses: [], failure: "ENOTFOUND" }];
  const { outcome } = await run({ log: text(JSON.stringify({ dials, lookups })) });
  assert.deepEqual(outcome, { known: true, value: { dials, lookups } });
});

test("if OpenShift refuses the user's number, the pod leaves the user to OpenShift", async () => {
  const refusals = [
    json({ kind: "Status", code: 403, message: "unable to validate against any security context constraint" }, 403),
  ];
  const create: Responder = (call) => (refusals.shift() ?? json({}, 201))(call);
  const { outcome, calls } = await run({ create });
  assert.deepEqual(outcome, { known: true, value: RESULT });
  const users = calls.flatMap(({ method, body }) =>
    method === "POST" ? [JSON.parse(body).spec.securityContext.runAsUser] : [],
  );
  assert.deepEqual(users, [65_532, undefined]);
});

test("reports an image without Node", async () => {
  const message = 'exec: "node": executable file not found in $PATH';
  const containerStatuses = [{ state: { terminated: { reason: "StartError", message } } }];
  const { outcome } = await run({ pod: json({ status: { phase: "Failed", containerStatuses } }) });
  const reason = { code: "probe-not-started", text: `the probe pod cannot start: ${message}` };
  assert.deepEqual(outcome, { known: false, reason });
});
