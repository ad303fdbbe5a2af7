import assert from "node:assert/strict";
import { test } from "node:test";
import { NO_SERVICE, pipelineRig } from "#test/fakes/pipeline-rig.ts";

// How the answers of ingress controllers and of the cluster's DNS change claims.

const LB = "203.0.113.9";
const INTERNAL = "10.1.0.9";
const FRONT = "10.96.0.9";
const CDN = "198.51.100.50";
const EXTERNAL = "198.51.100.7";
const NAME = "shop.example.com";
const SWEEP_MS = 61_000;

const addresses = () => ({
  targets: { edge: [LB], internal: [INTERNAL] } as Record<string, readonly string[]>,
  external: { edge: [EXTERNAL] },
  own: [FRONT],
  always: [] as string[],
  against: {} as Record<string, { reason: { code: string; text: string }; pending: boolean }>,
});

/** The result of one claim: of the target `edge`, or of a class without evidence (`?`, and the target of the class). */
const FIRST: ReadonlyArray<
  readonly [mode: "auto" | "enforce" | "warn", answer: readonly string[] | Error, of: string, result: string]
> = [
  ["auto", [LB], "edge", "edge!"],
  ["auto", [LB, CDN], "edge", "edge!"],
  ["auto", [INTERNAL], "edge", "internal!"],
  ["auto", [CDN], "edge", "dns-elsewhere?"],
  ["auto", [], "edge", "edge"],
  ["auto", [FRONT], "edge", "edge"],
  ["auto", [EXTERNAL], "edge", "edge"],
  ["auto", new Error("ESERVFAIL"), "edge", "edge"],
  ["auto", [CDN], "outside", "outside"],
  ["auto", [INTERNAL], "?", "internal!"],
  ["auto", [CDN], "?", "no-service"],
  ["auto", [EXTERNAL], "?", "no-service"],
  ["auto", [EXTERNAL], "?edge", "edge"],
  ["auto", [FRONT], "?", "no-service"],
  ["auto", [], "?", "no-service"],
  ["enforce", [LB], "edge", "edge"],
  ["enforce", [INTERNAL], "edge", "dns-other-target"],
  ["enforce", [CDN], "edge", "dns-elsewhere"],
  ["enforce", [], "edge", "dns-absent"],
  ["enforce", [FRONT], "edge", "dns-not-verified?"],
  ["enforce", new Error("ESERVFAIL"), "edge", "dns-not-verified?"],
  ["enforce", [INTERNAL], "?", "no-service"],
  ["warn", [CDN], "edge", "edge"],
  ["warn", [INTERNAL], "?", "no-service"],
];
for (const [mode, answer, of, result] of FIRST) {
  const answered = answer instanceof Error ? "nothing" : `[${answer}]`;
  test(`${mode}: DNS first answers ${answered} for a name of ${of}: ${result}`, async (t) => {
    const { records, answers, set, sync, results } = pipelineRig(t, { mode, addresses: addresses() });
    records.set(NAME, answer);
    answers.set("?", { ...NO_SERVICE, byClass: undefined }).set("?edge", { ...NO_SERVICE, byClass: "edge" });
    set("a", of);
    await sync();
    assert.deepEqual(results("a"), [result]);
  });
}

test("auto: three equal sweeps take a mapping away, and give it back; the old answer starts again", async (t) => {
  const { records, pass, set, sync, results } = pipelineRig(t, { addresses: addresses() });
  records.set(NAME, [LB]);
  set("a");
  await sync();
  records.set(NAME, [CDN]);
  await pass(2 * SWEEP_MS);
  records.set(NAME, [LB]);
  await pass(SWEEP_MS);
  assert.deepEqual(results("a"), ["edge!"]);
  // A CDN answers with different addresses each time.
  for (const last of [51, 52]) {
    records.set(NAME, [`198.51.100.${last}`]);
    await pass(SWEEP_MS);
  }
  assert.deepEqual(results("a"), ["edge!"]);
  await pass(SWEEP_MS);
  assert.deepEqual(results("a"), ["dns-elsewhere"]);
  records.set(NAME, [LB]);
  await pass(2 * SWEEP_MS);
  assert.deepEqual(results("a"), ["dns-elsewhere"]);
  await pass(SWEEP_MS);
  assert.deepEqual(results("a"), ["edge!"]);
});

test("enforce: one sweep takes a mapping away, and gives it back", async (t) => {
  const { records, pass, set, sync, results } = pipelineRig(t, { mode: "enforce", addresses: addresses() });
  records.set(NAME, [LB]);
  set("a");
  await sync();
  for (const [answer, result] of [
    [CDN, "dns-elsewhere"],
    [LB, "edge"],
  ] as const) {
    records.set(NAME, [answer]);
    await pass(SWEEP_MS);
    assert.deepEqual(results("a"), [result]);
  }
});

test("a first answer that leads elsewhere is final after three sweeps", async (t) => {
  const { records, pass, set, sync, results } = pipelineRig(t, { addresses: addresses() });
  records.set(NAME, [CDN]);
  set("a");
  await sync();
  await pass(SWEEP_MS);
  assert.deepEqual(results("a"), ["dns-elsewhere?"]);
  await pass(SWEEP_MS);
  assert.deepEqual(results("a"), ["dns-elsewhere"]);
});

test("our own addresses are no evidence: the last result stays", async (t) => {
  const { records, pass, set, sync, results } = pipelineRig(t, { addresses: addresses() });
  records.set(NAME, [INTERNAL]);
  set("a");
  await sync();
  records.set(NAME, [FRONT]);
  await pass(5 * SWEEP_MS);
  assert.deepEqual(results("a"), ["internal!"]);
});

test("a new name waits at most 2 s for its first answer; a late answer still counts", async (t) => {
  const { records, pass, set, sync, results, state } = pipelineRig(t, { addresses: addresses() });
  await sync();
  records.set(NAME, [INTERNAL]);
  state.slow = true;
  set("a");
  await pass(1_900);
  assert.deepEqual(results("a"), ["dns-not-verified?"]);
  await pass(200);
  assert.deepEqual(results("a"), ["edge"]);
  state.slow = false;
  await pass(100);
  assert.deepEqual(results("a"), ["internal!"]);
});

test("after a load balancer's address changes, its names stay until three sweeps say otherwise", async (t) => {
  const {
    records,
    pass,
    set,
    sync,
    results,
    addresses: known,
    servicesChanged,
  } = pipelineRig(t, {
    addresses: addresses(),
  });
  records.set(NAME, [LB]);
  set("a");
  await sync();
  known.targets = { edge: ["203.0.113.10"] };
  servicesChanged();
  await pass(100);
  assert.deepEqual(results("a"), ["edge!"]);
  records.set(NAME, ["203.0.113.10"]);
  await pass(5 * SWEEP_MS);
  assert.deepEqual(results("a"), ["edge!"]);
});

test("a name without a target gets one as soon as a Service gets its address", async (t) => {
  const setting = { addresses: addresses() };
  const { records, answers, pass, set, sync, results, addresses: known, servicesChanged } = pipelineRig(t, setting);
  answers.set("?", { ...NO_SERVICE, byClass: undefined });
  records.set(NAME, [CDN]);
  set("a", "?");
  await sync();
  known.targets = { ...known.targets, new: [CDN] };
  servicesChanged();
  await pass(100);
  assert.deepEqual(results("a"), ["new!"]);
  known.targets = {};
  servicesChanged();
  await pass(2 * SWEEP_MS);
  assert.deepEqual(results("a"), ["new!"]);
  await pass(2 * SWEEP_MS);
  assert.deepEqual(results("a"), ["no-service"]);
});

test("what DNS said about a claim that is gone decides nothing about a later one", async (t) => {
  const setting = { addresses: addresses() };
  const { records, answers, pass, set, sync, results, addresses: known, servicesChanged } = pipelineRig(t, setting);
  answers.set("?", { ...NO_SERVICE, byClass: undefined }).set("proxy", { code: "ip-mode-proxy", text: "" });
  records.set(NAME, [INTERNAL]);
  set("a", "?");
  await sync();
  assert.deepEqual(results("a"), ["internal!"]);
  set("a", "proxy");
  await pass(100);
  known.targets = {};
  servicesChanged();
  set("a", "?");
  await pass(100);
  assert.deepEqual(results("a"), ["no-service"]);
});

test("once an object has a target, an earlier answer that leads elsewhere is not final", async (t) => {
  const { records, answers, set, sync, pass, results } = pipelineRig(t, { addresses: addresses() });
  answers.set("?", { ...NO_SERVICE, byClass: undefined });
  records.set(NAME, [CDN]);
  set("a", "?");
  await sync();
  set("a");
  await pass(100);
  assert.deepEqual(results("a"), ["dns-elsewhere?"]);
});

test("map: always on the Service overrides that a name is elsewhere, with a warning", async (t) => {
  const {
    records,
    set,
    sync,
    pass,
    results,
    addresses: known,
    servicesChanged,
    dns,
  } = pipelineRig(t, {
    addresses: addresses(),
  });
  records.set(NAME, [CDN]);
  set("a");
  await sync();
  known.always?.push("edge");
  servicesChanged();
  await pass(100);
  assert.deepEqual([results("a"), dns.warningOf(NAME)?.code], [["edge"], "dns-elsewhere"]);
});

test("DNS does not move a name from its chosen target, but a name that is elsewhere is not mapped", async (t) => {
  const { records, see, sync, results } = pipelineRig(t, { addresses: addresses() });
  records.set("a.example.com", [INTERNAL]).set("b.example.com", [CDN]);
  const hints = { className: "edge", addresses: [], admitted: true, chosen: { target: "edge", namespace: "shop" } };
  for (const object of ["a", "b"]) {
    const from = { kind: "Ingress", namespace: "shop", name: object };
    see(object, [{ hostname: `${object}.example.com`, from, created: "2026-01-01T00:00:00Z", hints }]);
  }
  await sync();
  assert.deepEqual([results("a"), results("b")], [["target-not-allowed"], ["target-not-allowed"]]);
});

test("a name whose target DNS chose has that target's warning, and follows its ingress controller", async (t) => {
  const lost = { code: "port-lost", text: "its target internal has no port 80" };
  const {
    records,
    set,
    sync,
    pass,
    results,
    claims,
    addresses: known,
    headersChanged,
  } = pipelineRig(t, {
    addresses: { ...addresses(), warnings: { internal: lost } },
  });
  known.against = { internal: { reason: { code: "header-unknown", text: "not asked yet" }, pending: true } };
  records.set(NAME, [INTERNAL]);
  set("a");
  await sync();
  assert.deepEqual([results("a"), claims.get("a")?.[0]?.maybe], [["header-unknown?"], "internal"]);
  known.against = {};
  headersChanged();
  await pass(100);
  assert.deepEqual([results("a"), claims.get("a")?.[0]?.warning], [["internal!"], lost]);
});

test("a header that is not expected refuses a claim, an unknown one leaves it undecided", async (t) => {
  const {
    records,
    set,
    sync,
    pass,
    results,
    claims,
    asked,
    addresses: known,
    headersChanged,
  } = pipelineRig(t, {
    addresses: addresses(),
  });
  known.against = { edge: { reason: { code: "header-unknown", text: "not asked yet" }, pending: true } };
  records.set(NAME, [LB]);
  set("a");
  await sync();
  assert.deepEqual(results("a"), ["header-unknown?"]);
  known.against = { edge: { reason: { code: "header-not-expected", text: "it refuses" }, pending: false } };
  headersChanged();
  await pass(100);
  assert.deepEqual([results("a"), claims.get("a")?.[0]?.maybe, asked], [["header-not-expected"], "edge", []]);
});

test("DNS that leads a name elsewhere speaks against a target that it has without evidence", async (t) => {
  const setting = { addresses: addresses() };
  const { records, answers, set, sync, pass, results, plan, servicesChanged } = pipelineRig(t, setting);
  records.set(NAME, [LB]);
  set("a", "nginx");
  answers.set("nginx", "edge");
  await sync();
  answers.set("nginx", { ...NO_SERVICE, byClass: undefined });
  servicesChanged();
  await pass(100);
  assert.deepEqual(results("a"), ["edge!"], "DNS is evidence, too");
  records.set(NAME, [CDN]);
  await pass(2 * SWEEP_MS);
  assert.equal(plan.planned.size, 1);
  await pass(2 * SWEEP_MS);
  assert.equal(plan.planned.size, 0);
});
