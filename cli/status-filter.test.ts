import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { statusReport } from "./status.ts";
import type { StatusFilter } from "./status-filter.ts";

const WAITING = { ...WORKLOAD, namespace: "shop", name: "web", standing: "waiting" } as const;
const CURRENT = { ...WORKLOAD, namespace: "shop", name: "api", stale: 0 };
const ELSEWHERE = { ...NAME, name: "*.Other.example.org", from: { ...NAME.from, namespace: "other" } };
const ALL = fullStatus({ names: [ELSEWHERE, NAME, REFUSED] }, { workloads: [CURRENT, WAITING, WORKLOAD] });

const STUCK_KEY = "cert-manager/Deployment/cert-manager";
const SHOP_KEYS = ["shop/Deployment/web", "shop/Deployment/api"];

/** The lines of `-o name`. */
function names(filter: StatusFilter): readonly string[] {
  return statusReport(ALL, filter).names;
}

describe("a status filter", () => {
  it("is optional: without one, every name and then every workload is listed, in the order of the tables", () => {
    assert.deepEqual(names({}), [REFUSED.name, ELSEWHERE.name, NAME.name, STUCK_KEY, ...SHOP_KEYS]);
  });

  it("by namespace selects the names of its objects, and its workloads", () => {
    assert.deepEqual(names({ namespace: "shop" }), [REFUSED.name, NAME.name, ...SHOP_KEYS]);
    assert.deepEqual(names({ namespace: "other" }), [ELSEWHERE.name]);
    assert.deepEqual(names({ namespace: "sho" }), []);
  });

  it("by name is a case-insensitive pattern for the whole hostname, and leaves out workloads", () => {
    for (const [pattern, found] of [
      ["b.example.com", [NAME.name]],
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

  it("for refused names or stuck workloads leaves out the other table; both filters show both tables", () => {
    assert.deepEqual(names({ refused: true }), [REFUSED.name]);
    assert.deepEqual(names({ stuck: true }), [STUCK_KEY]);
    assert.deepEqual(names({ refused: true, stuck: true }), [REFUSED.name, STUCK_KEY]);
    assert.deepEqual(names({ refused: true, stuck: true, namespace: "shop" }), [REFUSED.name]);
    const text = statusReport(ALL, { stuck: true }).text(false);
    assert.doesNotMatch(text, /^Names/m);
    assert.match(text, /^Opted-in workloads: 1 of 3, 1 stuck$/m);
    assert.doesNotMatch(statusReport(ALL, { refused: true }).text(false), /workloads/);
  });

  it("does not change the rest of the document; a list that was not requested is absent", () => {
    const document = (filter: StatusFilter) => JSON.parse(JSON.stringify(statusReport(ALL, filter).document));
    const { names: _names, running, ...rest } = JSON.parse(JSON.stringify(ALL));
    const { workloads: _workloads, ...rollout } = running;
    assert.deepEqual(document({ refused: true }), {
      ...rest,
      names: [JSON.parse(JSON.stringify(REFUSED))],
      running: rollout,
    });
    assert.deepEqual(document({ namespace: "none" }), { ...rest, names: [], running: { ...rollout, workloads: [] } });
    assert.deepEqual(document({ stuck: true }).names, undefined);
  });

  it("for stuck workloads is an error if the workloads are unknown: an empty list would be wrong", () => {
    const { running: _running, ...follower } = ALL;
    const unknown = { code: "kube-unreachable", message: /^the state of workloads is unknown: / };
    assert.throws(() => statusReport(follower, { stuck: true }), unknown);
    assert.throws(() => statusReport(fullStatus({}, { unknown: "pods" }), { stuck: true }), unknown);
    assert.deepEqual(statusReport(follower, { refused: true }).names, [REFUSED.name]);
  });
});
