import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { ASKED_TARGET, fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { type FakeApi, fakeApi, json, noConnections } from "#test/fakes/kube-api.ts";
import { OBJECTS } from "#test/published.ts";
import type { Format } from "./formats.ts";
import { type StatusFilter, status, statusReport } from "./status.ts";

const report = (full: FullStatus, filter: StatusFilter = {}) => statusReport({ full, now: 0 }, filter);
const textOf = (full: FullStatus, filter: StatusFilter = {}) => report(full, filter).text;
const STUCK = fullStatus({}, { workloads: [WORKLOAD] });
const { running: _running, ...FOLLOWER } = fullStatus();

describe("the text", () => {
  test("lists names and workloads, problems first, each reason below; escapes tenants' control characters", () => {
    assert.equal(
      textOf(STUCK),
      `map abc, from controller-0

Names: 2, 1 refused
  NAME           TARGET  FROM
  -------------  ------  ----------------
  a.example.com  -       Ingress shop/web
      no-target: no class \\u001b[31m
  b.example.com  edge    Ingress shop/web

Opted-in workloads: 1, 1 stuck
  WORKLOAD                              PODS  STATE  ON CHANGE
  ------------------------------------  ----  -----  ---------
  cert-manager/Deployment/cert-manager  1/2   stuck  restart
      restart-not-permitted: not listed
      1 not injected

restarting now: none; waiting: 3
`,
    );
  });

  test("shows each asked port's answer, if there is no filter", () => {
    const full = fullStatus();
    const asked = { ...full, targets: [...full.targets, ASKED_TARGET] };
    assert.equal(
      textOf(asked).split("\nNames")[0],
      `map abc, from controller-0

Asked for a PROXY header: 1
  TARGET  INGRESS CONTROLLER
  ------  ------------------
  asked   edge/web
      443 demands-v1
`,
    );
    for (const filter of [{ namespace: "shop" }, { name: "*" }, { refused: true }, { stuck: true }] as const) {
      assert.doesNotMatch(textOf(asked, filter), /Asked for/, JSON.stringify(filter));
    }
  });

  test("has refused names first, then names with a warning, in any order of input", () => {
    const warned = { ...NAME, name: "z.example.com", warning: { code: "in-cluster-name", text: "a Service has it" } };
    const more = [
      { ...NAME, name: "0.example.com" },
      { ...REFUSED, name: "y.example.com" },
    ];
    const names = [NAME, { ...REFUSED, reason: { code: "no-target", text: "x" } }, warned, ...more];
    for (const all of [names, names.toReversed()]) {
      const text = textOf(fullStatus({ names: all }));
      assert.deepEqual(
        text.match(/\b\w\.example\.com/g)?.join(" "),
        "a.example.com y.example.com z.example.com 0.example.com b.example.com",
      );
      assert.match(text, /\n {2}z\.example\.com .*\n {6}warning: in-cluster-name: a Service has it\n/);
    }
  });

  test("shows the state of a workload, and each reason", () => {
    const base = { ...WORKLOAD, namespace: "a", name: "b", notInjected: 0, code: "c", text: "t" };
    const shown = (change: Partial<WorkloadStatus>) => {
      const text = textOf(fullStatus({ names: [] }, { workloads: [{ ...base, ...change }] }));
      const [, row = "", notes = ""] = /\n {2}(a\/.*)\n((?: {6}.*\n)*)/.exec(text) ?? [];
      return [...row.split(/ {2,}/).slice(1), ...notes.split(/\n? {6}/).filter(Boolean)].map((each) => each.trim());
    };
    const warnings = [
      { code: "w", text: "1" },
      { code: "x", text: "2" },
    ];
    assert.deepEqual(shown({ standing: "waiting" }), ["1/2", "stale", "restart", "c: t"]);
    assert.deepEqual(shown({ standing: "left", mode: "none" }), ["1/2", "stale (not restarted)", "none", "c: t"]);
    assert.deepEqual(shown({ standing: "stuck", stale: 0 }), ["2/2", "up to date", "restart", "c: t"]);
    const current = ["2/2", "up to date", "restart"];
    assert.deepEqual(shown({ standing: "in-step", stale: 0 }), current);
    assert.deepEqual(shown({ standing: "in-step", stale: 0, warnings }), [...current, "w: 1", "x: 2"]);
    assert.deepEqual(shown({ standing: "stuck", notInjected: 3, warnings }).slice(1), [
      ...["stuck", "restart", "c: t", "3 not injected", "w: 1", "x: 2"],
    ]);
  });

  test("shows the controller's warnings, what is unknown, and that there is nothing", () => {
    const warnings = [{ code: "many-names", text: "a\nb" }];
    assert.equal(
      textOf({ ...FOLLOWER, names: [], leader: false, revision: undefined, warnings }),
      String.raw`warning: many-names: a\u000ab

Names: 0
  none
`,
    );
    const unknown = textOf(fullStatus({ names: [] }, { unknown: "pods cannot be\nread" }));
    assert.equal(unknown.split("Opted-in workloads\n")[1], "  unknown: pods cannot be\\u000aread\n");
    const busy = textOf(fullStatus({}, { workloads: [WORKLOAD], underWay: "shop/Deployment/web" }));
    assert.equal(busy.split("\n").at(-2), "restarting now: shop/Deployment/web; waiting: 3");
    assert.match(textOf(fullStatus({ names: [] })), /\nNames: 0\n {2}none\n\nOpted-in workloads: 0\n {2}none\n/);
  });
});

describe("a filter", () => {
  const WAITING = { ...WORKLOAD, namespace: "shop", name: "web", standing: "waiting" } as const;
  const CURRENT = { ...WORKLOAD, namespace: "shop", name: "api", stale: 0 };
  const ELSEWHERE = { ...NAME, name: "*.Other.example.org", from: { ...NAME.from, namespace: "other" } };
  const ALL = fullStatus({ names: [ELSEWHERE, NAME, REFUSED] }, { workloads: [CURRENT, WAITING, WORKLOAD] });
  const STUCK_KEY = "cert-manager/Deployment/cert-manager";
  const SHOP_KEYS = ["shop/Deployment/web", "shop/Deployment/api"];
  /** The lines of `-o name`. */
  const names = (filter: StatusFilter) => report(ALL, filter).names;

  test("is optional: without one, every name and then every workload is listed, in the order of the tables", () => {
    assert.deepEqual(names({}), [REFUSED.name, ELSEWHERE.name, NAME.name, STUCK_KEY, ...SHOP_KEYS]);
  });

  test("by namespace selects the names of its objects, and its workloads", () => {
    assert.deepEqual(names({ namespace: "shop" }), [REFUSED.name, NAME.name, ...SHOP_KEYS]);
    assert.deepEqual(names({ namespace: "other" }), [ELSEWHERE.name]);
    assert.deepEqual(names({ namespace: "sho" }), []);
  });

  test("by name is a case-insensitive pattern for the whole hostname, and leaves out workloads", () => {
    for (const [pattern, found] of [
      ["B.Example.com", [NAME.name]],
      ["*.example.com", [REFUSED.name, NAME.name]],
      ["*.OTHER.*", [ELSEWHERE.name]],
      ["?.example.com", []],
      ["example", []],
      ["bxexample.com", []],
      ["**", [REFUSED.name, ELSEWHERE.name, NAME.name]],
    ] as const) {
      assert.deepEqual(names({ name: pattern }), found, pattern);
    }
  });

  test("for refused names or stuck workloads leaves out the other table; both filters show both tables", () => {
    assert.deepEqual(names({ refused: true }), [REFUSED.name]);
    assert.deepEqual(names({ stuck: true }), [STUCK_KEY]);
    assert.deepEqual(names({ refused: true, stuck: true }), [REFUSED.name, STUCK_KEY]);
    assert.deepEqual(names({ refused: true, stuck: true, namespace: "shop" }), [REFUSED.name]);
    assert.doesNotMatch(textOf(ALL, { stuck: true }), /^Names/m);
    assert.match(textOf(ALL, { stuck: true }), /^Opted-in workloads: 1 of 3, 1 stuck$/m);
    assert.doesNotMatch(textOf(ALL, { refused: true }), /workloads/);
  });

  test("does not change the rest of the document; a list that was not requested is absent", () => {
    const document = (filter: StatusFilter) => JSON.parse(JSON.stringify(report(ALL, filter).document));
    const { names: _names, running, ...rest } = JSON.parse(JSON.stringify(ALL));
    const { workloads: _workloads, ...rollout } = running;
    const refused = [JSON.parse(JSON.stringify(REFUSED))];
    assert.deepEqual(document({ refused: true }), { ...rest, names: refused, running: rollout });
    assert.deepEqual(document({ namespace: "none" }), { ...rest, names: [], running: { ...rollout, workloads: [] } });
    assert.deepEqual(document({ stuck: true }).names, undefined);
  });

  test("for stuck workloads is an error if the workloads are unknown: an empty list would be wrong", () => {
    const unknown = { code: "kube-unreachable", message: /^the state of workloads is unknown: / };
    assert.throws(() => report(FOLLOWER, { stuck: true }), unknown);
    assert.throws(() => report(fullStatus({}, { unknown: "pods" }), { stuck: true }), unknown);
    assert.deepEqual(report(FOLLOWER, { refused: true }).names, [REFUSED.name]);
  });
});

test("only a workload that is both stale and stuck is a failure", () => {
  const isStuck = (...workloads: WorkloadStatus[]) => report(fullStatus({}, { workloads })).isStuck;
  const current = { ...WORKLOAD, stale: 0 };
  assert.deepEqual([isStuck(WORKLOAD), isStuck(current, WORKLOAD)], [true, true]);
  assert.deepEqual([isStuck({ ...WORKLOAD, standing: "waiting" }), isStuck(current), isStuck()], [false, false, false]);
  assert.equal(report(FOLLOWER).isStuck, false);
});

describe("status", () => {
  const files = useFiles();
  let api: FakeApi;
  afterEach(() => api.close());

  async function run(output: Format, leader: FullStatus, flags: object = {}) {
    api = await fakeApi(json(leader));
    const { context, written } = captured();
    const kubeconfig = await files.kubeconfig(api.url);
    return { code: await status({ switchbackNamespace: "ours", kubeconfig, output, ...flags }, context), ...written };
  }

  test("prints the tables once, and exits with 1 if a workload is stuck", async () => {
    assert.deepEqual(await run("text", STUCK), { code: 1, stdout: textOf(STUCK), stderr: "" });
    assert.deepEqual(api.calls.map(({ path }) => path).sort(), [
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns",
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns-import",
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-external-dns",
      `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`,
      "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status",
    ]);
    await noConnections(api);
  });

  test("exits with the code for the selected rows, and says how many workloads are left out", async () => {
    const leader = fullStatus({}, { workloads: [WORKLOAD], omitted: 4_999 });
    const { code, stdout, stderr } = await run("text", leader, { namespace: "shop" });
    assert.equal(code, 0);
    assert.match(stdout, /^Names: 2, 1 refused$/m);
    assert.match(stderr, /^not shown: 4999 workloads; see -n, .*\n$/);
  });

  test("prints every row in full length: a script may search all of it", async () => {
    const names = Array.from({ length: 150 }, (_each, index) => `n${index}.${"long-".repeat(12)}.example.com`);
    const text = "word ".repeat(40).trim();
    const leader = fullStatus({ names: names.map((name) => ({ ...REFUSED, name, reason: { code: "c", text } })) });
    const { stdout, stderr } = await run("text", leader);
    assert.equal(stderr, "");
    for (const name of names) assert.ok(stdout.includes(`  ${name} `), name);
    assert.equal(stdout.split(`c: ${text}\n`).length - 1, names.length);
  });
});
