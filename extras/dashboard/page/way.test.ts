import assert from "node:assert/strict";
import { test } from "node:test";
import { fullStatus, NAME, REFUSED } from "#test/fakes/full-status.ts";
import { type Observed, wayOf } from "./way.ts";

const NOTHING: Observed = { components: undefined, measured: undefined };
const known = <T>(value: T) => ({ known: true, value }) as const;
const MISSING = { known: false, reason: { code: "right-missing", text: "t" } } as const;
/** What the page knows about the proxies and the ingress controller. */
const seen = (
  ready: number,
  endpoints: number,
  dials: readonly (readonly [good: number, failing: number])[] = [],
): Observed => ({
  components: {
    deployments: known([{ name: "switchback-proxy", desired: 2, ready, image: "i", pullPolicy: "Always" }]),
    agents: known([]),
    publishers: known([]),
    upstreams: known([{ namespace: "ingress-nginx", name: "ingress-nginx-controller", ready: endpoints }]),
  },
  measured: known({
    certificates: {},
    upstreams: dials.map(([good, failing], index) => ({ target: "edge", port: String(index), good, failing })),
  }),
});

const states = (change: Partial<typeof NAME>, summary = fullStatus()) =>
  wayOf({ ...NAME, ...change }, summary, NOTHING)
    .map(({ state }) => state)
    .join(" ");

test("a mapped name works up to its front address; the status alone does not tell whether the rest works", () => {
  assert.deepEqual(
    wayOf(NAME, fullStatus(), NOTHING).map(({ title, values, state }) => `${title}: ${values} ${state}`),
    [
      "Ingress: shop/web works",
      "Target: edge works",
      "Front address: 198.51.100.9 works",
      "Proxy: 443, PROXY v2 unknown",
      "Ingress controller: ingress-nginx/ingress-nginx-controller unknown",
    ],
  );
});

test("the way ends at the step with the reason: the object, the target, or its address", () => {
  const reason = (code: string) => ({ code, text: "t" });
  assert.equal(states({ target: undefined, reason: reason("conflict") }), "broken beyond beyond beyond beyond");
  assert.equal(states({ target: undefined, reason: reason("no-target") }), "works broken beyond beyond beyond");
  assert.equal(states({ addresses: [], reason: reason("target-without-address") }), "works works broken beyond beyond");
  assert.equal(wayOf(REFUSED, fullStatus(), NOTHING)[1]?.reason, REFUSED.reason);
});

test("a warning is shown at the address, and does not end the way", () => {
  const warning = { code: "dns-elsewhere", text: "t" };
  assert.equal(states({ warning }), "works works warning unknown unknown");
  assert.equal(wayOf({ ...NAME, warning }, fullStatus(), NOTHING)[2]?.reason, warning);
});

test("the way of a target without a relay has no proxy", () => {
  const [target] = fullStatus().targets;
  assert.ok(target);
  const direct = { targets: [{ ...target, relayed: false, ports: [] }] };
  assert.equal(
    wayOf(NAME, direct, NOTHING)
      .map(({ title }) => title)
      .join(),
    "Ingress,Target,Address,Ingress controller",
  );
});

for (const [what, observed, end, code] of [
  ["all replicas ready, endpoints, good dials", seen(2, 1, [[2, 0]]), "works works", undefined],
  ["some replicas ready", seen(1, 1), "warning works", "deployment-degraded"],
  ["no replica ready", seen(0, 1), "broken beyond", "deployment-not-ready"],
  ["no endpoint of the ingress controller", seen(2, 0, [[2, 0]]), "works broken", "upstream-without-endpoints"],
  ["dials that fail for some", seen(2, 1, [[1, 1]]), "works warning", "dial-failing"],
  [
    "dials of one port that fail",
    seen(2, 1, [
      [2, 0],
      [0, 2],
    ]),
    "works broken",
    "dial-failing",
  ],
  [
    "rights that are missing",
    {
      components: {
        ...seen(2, 1).components,
        deployments: MISSING,
        upstreams: MISSING,
        agents: MISSING,
        publishers: MISSING,
      },
      measured: MISSING,
    },
    "unknown unknown",
    undefined,
  ],
] as const satisfies readonly (readonly [string, Observed, string, string | undefined])[]) {
  test(`the proxy and the ingress controller: ${what}`, () => {
    const last = wayOf(NAME, fullStatus(), observed).slice(-2);
    assert.equal(last.map(({ state }) => state).join(" "), end);
    assert.equal(last.find(({ reason }) => reason)?.reason?.code, code);
  });
}

test("a missing proxy is broken, and profile small has its proxy in another Deployment", () => {
  const without = {
    ...seen(2, 1),
    components: { ...(seen(2, 1).components ?? assert.fail()), deployments: known([]) },
  };
  assert.equal(wayOf(NAME, fullStatus(), without)[3]?.reason?.code, "deployment-missing");
  const all = known([{ name: "switchback-all", desired: 1, ready: 1, image: "i", pullPolicy: "Always" }]);
  const small = { ...seen(2, 1), components: { ...(seen(2, 1).components ?? assert.fail()), deployments: all } };
  assert.equal(wayOf(NAME, fullStatus(), small)[3]?.state, "works");
});
