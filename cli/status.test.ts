import assert from "node:assert/strict";
import { afterEach, describe, test } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus } from "#controller/status.ts";
import { captured, plain, useFiles } from "#test/fakes/cli.ts";
import { ASKED_TARGET, fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { type FakeApi, fakeApi, json, noConnections } from "#test/fakes/kube-api.ts";
import { OBJECTS } from "#test/published.ts";
import type { Format } from "./formats.ts";
import { paint } from "./output.ts";
import { status, statusReport } from "./status.ts";

function textOf(full: FullStatus, flags: Parameters<typeof statusReport>[1] = {}, wide = false): string {
  return plain(statusReport(full, flags).text(wide));
}

test("lists names and workloads, problems first, with each reason below; escapes tenants' control characters", () => {
  assert.equal(
    textOf(fullStatus({}, { workloads: [WORKLOAD] })),
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

test("shows each asked port's answer", () => {
  const full = fullStatus();
  const asked = { ...full, targets: [...full.targets, ASKED_TARGET] };
  assert.equal(
    textOf(asked, {}).split("\nNames")[0],
    `map abc, from controller-0

Asked for a PROXY header: 1
  TARGET  INGRESS CONTROLLER
  ------  ------------------
  asked   edge/web
      443 demands-v1
`,
  );
  assert.match(textOf(asked, {}, true), /\n {2}asked {3}edge\/web {12}443 demands-v1\n/);
  for (const filter of [{ namespace: "shop" }, { name: "*" }, { refused: true }, { stuck: true }]) {
    assert.doesNotMatch(textOf(asked, filter), /Asked for/, JSON.stringify(filter));
  }
});

test("wide has addresses, times and reasons as columns", () => {
  const tables = textOf(fullStatus({}, { workloads: [WORKLOAD] }), {}, true).split("\n");
  assert.deepEqual(
    tables.filter((line) => line.startsWith("  ") && !line.includes("--")),
    [
      "  NAME           TARGET             FROM              SINCE                 REASON",
      "  a.example.com  -                  Ingress shop/web  2026-01-01T00:00:00Z  no-target: no class \\u001b[31m",
      "  b.example.com  edge 198.51.100.9  Ingress shop/web  2026-01-01T00:00:00Z",
      "  WORKLOAD                              PODS  STATE  ON CHANGE  LAST RESTART  REASON",
      "  cert-manager/Deployment/cert-manager  1/2   stuck  restart    -             restart-not-permitted: not " +
        "listed; 1 not injected",
    ],
  );
});

test("sorts refused names first, then names with a warning, in any order of input", () => {
  const reason = { code: "no-target", text: "x" };
  const warned = { ...NAME, name: "z.example.com", warning: { code: "in-cluster-name", text: "a Service has it" } };
  const names = [
    NAME,
    { ...REFUSED, reason },
    warned,
    { ...NAME, name: "0.example.com" },
    { ...REFUSED, name: "y.example.com" },
  ];
  for (const all of [names, names.toReversed()]) {
    const text = textOf(fullStatus({ names: all }));
    assert.deepEqual(
      text.match(/\b\w\.example\.com/g)?.join(" "),
      "a.example.com y.example.com z.example.com 0.example.com b.example.com",
    );
    assert.match(text, /\n {2}z\.example\.com .*\n {6}warning: in-cluster-name: a Service has it\n/);
  }
});

test("shows the state of a workload, its last restart, and each reason", () => {
  const base = { ...WORKLOAD, namespace: "a", name: "b", notInjected: 0, code: "c", text: "t" };
  const row = (change: Partial<WorkloadStatus>) =>
    textOf(fullStatus({ names: [] }, { workloads: [{ ...base, ...change }] }), {}, true)
      .split("\n")
      .find((line) => line.startsWith("  a/"))
      ?.split(/ {2,}/)
      .slice(2);
  const at = "2026-01-01T00:00:00Z";
  assert.deepEqual(row({ standing: "waiting" }), ["1/2", "stale", "restart", "-", "c: t"]);
  assert.deepEqual(row({ standing: "left", mode: "none" }), ["1/2", "stale (not restarted)", "none", "-", "c: t"]);
  assert.deepEqual(row({ standing: "stuck", lastRestart: at }), ["1/2", "stuck", "restart", at, "c: t"]);
  assert.deepEqual(row({ standing: "stuck", stale: 0 }), ["2/2", "up to date", "restart", "-", "c: t"]);
  const warnings = [
    { code: "w", text: "1" },
    { code: "x", text: "2" },
  ];
  const current = ["2/2", "up to date", "restart", "-"];
  assert.deepEqual(row({ standing: "in-step", stale: 0 }), current);
  assert.deepEqual(row({ standing: "in-step", stale: 0, warnings }), [...current, "w: 1; x: 2"]);
  const both = row({ standing: "stuck", notInjected: 3, warnings });
  assert.equal(both?.at(-1), "c: t; 3 not injected; w: 1; x: 2");
});

test("shows the controller's warnings, and what is unknown", () => {
  const warnings = [
    { code: "over-cap", text: "a\nb" },
    { code: "x", text: "y" },
  ];
  const { running: _running, ...follower } = fullStatus({ names: [], leader: false, revision: undefined, warnings });
  assert.equal(
    textOf(follower),
    String.raw`map not published yet, from controller-0 (not the leader: no workloads)
warning: over-cap: a\u000ab
warning: x: y

Names: 0
  none
`,
  );
  const unknown = textOf(fullStatus({ names: [] }, { unknown: "pods cannot be\nread" }));
  assert.equal(unknown.split("Opted-in workloads\n")[1], "  unknown: pods cannot be\\u000aread\n");
  const busy = textOf(fullStatus({}, { workloads: [WORKLOAD], underWay: "shop/Deployment/web" }), {}, true);
  assert.equal(busy.split("\n").at(-2), "restarting now: shop/Deployment/web; waiting: 3");
});

test("colours only what needs somebody to act", () => {
  const waiting = { ...WORKLOAD, name: "waiting", standing: "waiting" } as const;
  const current = { ...WORKLOAD, name: "current", stale: 0 };
  const warned = { ...NAME, name: "w.example.com", warning: { code: "x", text: "y" } };
  const full = fullStatus({ names: [NAME, REFUSED, warned] }, { workloads: [WORKLOAD, waiting, current] });
  for (const wide of [false, true]) {
    const text = statusReport(full, {}).text(wide);
    const painted = ["a.example.com", "w.example.com"].map((name) => paint("warning", name));
    painted.push(paint("bad", "stuck"), paint("warning", "stale"));
    for (const each of painted) assert.ok(text.includes(each), each);
    assert.equal(text.split("\u001b").length, 1 + 2 * painted.length);
  }
});

test("says if there are no names and no workloads", () => {
  const text = textOf(fullStatus({ names: [] }));
  assert.match(text, /\nNames: 0\n {2}none\n\nOpted-in workloads: 0\n {2}none\n/);
});

test("only a workload that is both stale and stuck is a failure", () => {
  const isStuck = (...workloads: WorkloadStatus[]) => statusReport(fullStatus({}, { workloads }), {}).isStuck;
  assert.equal(isStuck(WORKLOAD), true);
  assert.equal(isStuck({ ...WORKLOAD, standing: "waiting" }), false);
  assert.equal(isStuck({ ...WORKLOAD, stale: 0 }), false);
  assert.equal(isStuck({ ...WORKLOAD, stale: 0 }, WORKLOAD), true);
  assert.equal(isStuck(), false);
  const { running: _running, ...follower } = fullStatus();
  assert.equal(statusReport(follower, {}).isStuck, false);
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
    const stuck = fullStatus({}, { workloads: [WORKLOAD] });
    assert.deepEqual(await run("text", stuck), { code: 1, stdout: textOf(stuck), stderr: "" });
    assert.deepEqual(api.calls.map(({ path }) => path).sort(), [
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns",
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-coredns-import",
      "/api/v1/namespaces/ours/configmaps/switchback-publisher-external-dns",
      `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`,
      "/api/v1/namespaces/ours/services/switchback-controller:http/proxy/status",
    ]);
    await noConnections(api);
  });

  test("prints the leader's status as indented JSON, and exits with 0 if nothing is stuck", async () => {
    const good = fullStatus({}, { workloads: [{ ...WORKLOAD, stale: 0 }] });
    const { code, stdout } = await run("json", good);
    assert.equal(code, 0);
    assert.deepEqual(JSON.parse(stdout), JSON.parse(JSON.stringify({ ...good, names: good.names.toReversed() })));
    assert.match(stdout, /^\{\n {2}"leader": true,\n/);
  });

  test("exits with the code for the selected rows, and says how many workloads are left out", async () => {
    const leader = fullStatus({}, { workloads: [WORKLOAD], omitted: 4_999 });
    const { code, stdout, stderr } = await run("text", leader, { namespace: "shop" });
    assert.equal(code, 0);
    assert.match(stdout, /^Names: 2, 1 refused$/m);
    assert.match(stderr, /^not shown: 4999 workloads; see -n, .*\n$/);
  });

  for (const output of ["text", "wide"] as const) {
    test(`prints every row in full length, -o ${output}: a script may search all of it`, async () => {
      const names = Array.from({ length: 150 }, (_each, index) => `n${index}.${"long-".repeat(12)}.example.com`);
      const text = "word ".repeat(40).trim();
      const leader = fullStatus({ names: names.map((name) => ({ ...REFUSED, name, reason: { code: "c", text } })) });
      const { stdout, stderr } = await run(output, leader);
      assert.equal(stderr, "");
      for (const name of names) assert.ok(stdout.includes(`  ${name} `), name);
      assert.equal(stdout.split(`c: ${text}\n`).length - 1, names.length);
    });
  }
});
