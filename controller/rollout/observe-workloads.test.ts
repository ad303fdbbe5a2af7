import assert from "node:assert/strict";
import { test } from "node:test";
import { type PodFacts, podFacts } from "#lib/workloads/pods.ts";
import { type FullView, observeFully } from "#test/fakes/observe-fully.ts";
import { state as facts } from "#test/fakes/workload-facts.ts";
import type { UpdaterState } from "./pod-updater.ts";

function pod(name: string, annotations: Record<string, string> = {}, labels: Record<string, string> = {}): PodFacts {
  const owner = { apiVersion: "apps/v1", kind: "StatefulSet", name: "web", uid: "u", controller: true };
  return podFacts({ metadata: { namespace: "shop", name, uid: name, labels, annotations, ownerReferences: [owner] } });
}

function view(pods: readonly PodFacts[], parts: Partial<FullView> = {}): FullView {
  return {
    pods,
    namespaces: new Map([["shop", { inject: "enabled", onChange: undefined }]]),
    optIn: { excluded: new Set(["kube-system"]), listed: new Set(["listed"]) },
    choose: (hosts) => ({ revision: hosts === undefined ? "new" : `new-${hosts}`, total: 1, cap: 500 }),
    mapRevision: "map-2",
    fallback: "restart",
    isListed: () => true,
    parentOf: () => undefined,
    stateOf: () => "unknown",
    updaterOf: () => undefined,
    unfinished: [],
    onError: (what, error) => assert.fail(`${what}: ${error}`),
    ...parts,
  };
}

/** A working agent with the report of its Lease. */
function agent(mapRevision: string, podRevisions?: readonly string[]): UpdaterState {
  return { alive: true, mapRevision, podRevisions };
}
/** The revision of a pod without a selection. */
const ALL = "new";

const REPLICA_SET = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "u", controller: true };
const REVISION = "switchback.dev/revision";

test("a pod or workload that cannot be evaluated affects only itself, and is reported", () => {
  const failed: string[] = [];
  const odd = podFacts({ metadata: { namespace: "shop", name: "odd", uid: "odd", ownerReferences: [REPLICA_SET] } });
  const broken = podFacts({ metadata: { namespace: "shop", name: "bare", uid: "bare" } });
  const groups = observeFully(
    view([odd, broken, pod("web-0")], {
      parentOf: () => {
        throw new Error("no parent");
      },
      stateOf: (key) => {
        if (key.includes("Pod")) throw new Error("no state");
        return "unknown";
      },
      onError: (what, error) => failed.push(`${what}: ${(error as Error).message}`),
    }),
  );
  assert.deepEqual(
    groups.map(({ owner }) => owner.name),
    ["web"],
  );
  assert.deepEqual(failed, ["the pod shop/odd: no parent", "shop/Pod/bare: no state"]);
});

test("an opted-in pod whose owner has an invalid name does not affect other pods", () => {
  for (const name of ["..", ".", "a/b", "", "\u001b[31m", "%2e%2e", "x".repeat(100_000)]) {
    for (const kind of ["Deployment", "ReplicaSet", "Job", "", "../.."]) {
      const owner = { apiVersion: "apps/v1", kind, name, uid: "u", controller: true };
      const odd = podFacts({ metadata: { namespace: "shop", name: "odd", uid: "odd", ownerReferences: [owner] } });
      const groups = observeFully(view([odd, pod("web-0")], { stateOf: () => "absent" }));
      assert.ok(
        groups.some((group) => group.owner.name === "web" && group.pods === 1),
        `${kind} ${name.slice(0, 10)}`,
      );
    }
  }
});

test("the revision of a pod tells whether it is current, stale or not injected, also with selected names", () => {
  const hosts = { "switchback.dev/hosts": "a" };
  const [group, ...others] = observeFully(
    view([
      pod("current", { [REVISION]: "new" }),
      pod("stale", { [REVISION]: "old" }),
      pod("bare"),
      pod("chosen", { ...hosts, [REVISION]: "new-a" }),
      pod("out", {}, { "switchback.dev/inject": "disabled" }),
    ]),
  );
  assert.equal(others.length, 0);
  assert.deepEqual(
    group?.stale.map(({ name }) => name),
    ["stale", "bare"],
  );
  assert.deepEqual([group?.pods, group?.notInjected, group?.observed.to], [4, 1, "new+new-a"]);
});

test("a terminating pod, and one that did not opt in, are ignored", () => {
  const terminating = { ...pod("terminating"), terminating: true };
  const namespaces = new Map([["shop", { inject: undefined, onChange: undefined }]]);
  assert.deepEqual(observeFully(view([terminating])), []);
  assert.deepEqual(observeFully(view([pod("other")], { namespaces })), []);
});

test("a pod is observed if its namespace opts in by name, unless the namespace's label opts out", () => {
  const listed = [{ ...pod("web"), namespace: "listed" }];
  const labelled = new Map([["listed", { inject: "disabled", onChange: undefined }]]);
  assert.equal(observeFully(view(listed)).length, 1);
  assert.equal(observeFully(view(listed, { namespaces: labelled })).length, 0);
});

const AGENTS: ReadonlyArray<readonly [string, UpdaterState | "unknown" | undefined, boolean, string | undefined]> = [
  ["alive and current", agent("map-2"), false, undefined],
  ["alive and behind", agent("map-1"), true, "keeping"],
  ["alive, with another map that changed nothing for its pods", agent("map-1", [ALL]), false, undefined],
  ["alive, with the names of other pods", agent("map-1", ["other"]), true, "keeping"],
  ["alive, with nothing to follow", agent("map-1", []), true, "keeping"],
  ["silent", { ...agent("map-2", [ALL]), alive: false }, true, "silent"],
  ["not there", undefined, true, "silent"],
  ["on a node that is not known yet", "unknown", true, "keeping"],
];

for (const [what, agent, stale, updaters] of AGENTS) {
  test(`in mode live with an agent that is ${what}`, () => {
    const [group] = observeFully(view([pod("p", { [REVISION]: "old" })], { fallback: "live", updaterOf: () => agent }));
    assert.deepEqual([group?.stale.length === 1, group?.observed.updaters], [stale, updaters]);
  });
}

test("a workload with an unfinished restart is observed even without pods", () => {
  const [group] = observeFully(view([], { unfinished: ["shop/Deployment/gone"] }));
  assert.deepEqual([group?.owner.key, group?.pods], ["shop/Deployment/gone", 0]);
});

const OWNER = {
  namespace: "shop",
  kind: "StatefulSet",
  name: "web",
  key: "shop/StatefulSet/web",
  unrestartable: undefined,
};

test("all facts that are observed about a workload", () => {
  const annotations = { [REVISION]: "old", "switchback.dev/restartedAt": "2026-01-01T00:00:00Z" };
  const stale = pod("stale", annotations);
  const [current, other] = [pod("current", { [REVISION]: "new" }), pod("other", { "switchback.dev/hosts": "a" })];
  const [group, ...more] = observeFully(view([current, stale, other]));
  assert.deepEqual(more, []);
  assert.deepEqual(group, {
    owner: OWNER,
    onChange: { mode: "restart", from: "install", problems: [] },
    pods: 3,
    stale: [stale, other],
    first: current,
    notInjected: 1,
    overCap: undefined,
    warnings: [],
    observed: {
      key: OWNER.key,
      namespace: "shop",
      kind: "StatefulSet",
      unrestartable: undefined,
      permitted: true,
      state: "unknown",
      mode: "restart",
      updaters: undefined,
      stale: [
        { revision: "old", restartedAt: "2026-01-01T00:00:00Z" },
        { revision: undefined, restartedAt: undefined },
      ],
      to: "new+new-a",
    },
  });
});

test("a workload without pods has the owner from its key, the default mode, and no revision", () => {
  const [group] = observeFully(view([], { unfinished: [OWNER.key], fallback: "live", isListed: () => false }));
  assert.deepEqual(group, {
    owner: OWNER,
    onChange: { mode: "live", from: "install", problems: [] },
    pods: 0,
    stale: [],
    first: undefined,
    notInjected: 0,
    overCap: undefined,
    warnings: [],
    observed: {
      key: OWNER.key,
      namespace: "shop",
      kind: "StatefulSet",
      unrestartable: undefined,
      permitted: false,
      state: "unknown",
      mode: "live",
      updaters: undefined,
      stale: [],
      to: "",
    },
  });
});

test("an unfinished restart changes nothing for a workload that has pods", () => {
  const pods = [pod("a", { [REVISION]: "new" }), pod("b", { [REVISION]: "new" })];
  assert.deepEqual(observeFully(view(pods, { unfinished: [OWNER.key] })), observeFully(view(pods)));
});

test("the mode is that of the first stale pod, else of the first; a pod's annotation overrides its workload's", () => {
  const none = { "switchback.dev/on-change": "none" };
  const onChange = (pods: readonly PodFacts[], parts: Partial<FullView> = {}) =>
    observeFully(view(pods, parts))[0]?.onChange;
  const of = (mode: string, from: string) => ({ mode, from, problems: [] });
  const [current, stale] = [pod("current", { [REVISION]: "new" }), pod("stale", { [REVISION]: "old", ...none })];
  assert.deepEqual(onChange([current, stale]), of("none", "pod"));
  assert.deepEqual(onChange([pod("current", { [REVISION]: "new", ...none }), current]), of("none", "pod"));
  const state = { ...facts, onChange: "live" };
  assert.deepEqual(onChange([current], { stateOf: () => state }), of("live", "workload"));
  assert.deepEqual(onChange([stale], { stateOf: () => state }), of("none", "pod"));
  const namespaces = new Map([["shop", { inject: "enabled", onChange: "none" }]]);
  assert.deepEqual(onChange([current], { namespaces }), of("none", "namespace"));
  const [group] = observeFully(view([pod("p", { "switchback.dev/on-change": "never" })]));
  assert.deepEqual(group?.warnings, group?.onChange.problems);
  assert.equal(group?.warnings[0]?.code, "on-change-invalid");
});

test("a workload is over the cap only with more names than a pod may have", () => {
  const overCap = (total: number) =>
    observeFully(view([pod("p")], { choose: () => ({ revision: "new", total, cap: 500 }) }))[0]?.overCap;
  assert.deepEqual([overCap(500), overCap(501)], [undefined, { total: 501, cap: 500 }]);
});

test("only pods in mode live ask for their agent; one working agent of a stale pod counts for all", () => {
  const asked: string[] = [];
  const live = { "switchback.dev/on-change": "live" };
  const agents = (names: readonly string[], annotations: Record<string, string>) => {
    const updaterOf = ({ name }: PodFacts): UpdaterState | undefined => {
      asked.push(name);
      return { ...agent(name === "current" ? "map-2" : "map-1"), alive: name !== "silent" };
    };
    return observeFully(
      view(
        names.map((name) => pod(name, annotations)),
        { updaterOf },
      ),
    )[0]?.observed.updaters;
  };
  assert.equal(agents(["silent", "behind"], {}), undefined);
  assert.deepEqual(asked, []);
  assert.equal(agents(["silent", "behind"], live), "keeping");
  assert.equal(agents(["silent", "current"], live), "silent");
  assert.equal(agents(["current"], live), undefined);
  assert.deepEqual(asked, ["silent", "behind", "silent", "current", "current"]);
});

test("the revisions that new pods would get are sorted and unique", () => {
  const hosts = (name: string, value: string) => pod(name, { "switchback.dev/hosts": value });
  const [group] = observeFully(view([hosts("1", "b"), hosts("2", "a"), hosts("3", "b"), pod("4")]));
  assert.equal(group?.observed.to, "new+new-a+new-b");
});

test("a pod that resolves through pod DNS is never stale, whatever its mode, and has no limit on names", () => {
  const byDns = pod("by-dns", { [REVISION]: "dns" });
  const choose = () => ({ revision: "new", total: 9, cap: 5 });
  for (const fallback of ["restart", "live", "none"] as const) {
    for (const updaterOf of [() => undefined, () => agent("map-1", [])]) {
      const [group] = observeFully(view([byDns], { fallback, choose, updaterOf }));
      assert.deepEqual([group?.stale, group?.notInjected, group?.overCap], [[], 0, undefined]);
    }
  }
  const [mixed] = observeFully(view([byDns, pod("by-hosts", { [REVISION]: "old" })], { choose }));
  assert.deepEqual([mixed?.stale.map(({ name }) => name), mixed?.overCap?.total], [["by-hosts"], 9]);
});
