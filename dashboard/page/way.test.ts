import assert from "node:assert/strict";
import { test } from "node:test";
import { fullStatus, NAME, REFUSED } from "../../test/fakes/full-status.ts";
import { wayOf } from "./way.ts";

const states = (change: Partial<typeof NAME>, summary = fullStatus()) =>
  wayOf({ ...NAME, ...change }, summary)
    .map(({ state }) => state)
    .join(" ");

test("a mapped name works up to the relay; what lies behind it the status does not say", () => {
  assert.deepEqual(
    wayOf(NAME, fullStatus()).map(({ title, values, state }) => `${title}: ${values} ${state}`),
    [
      "Ingress: shop/web works",
      "Target: edge works",
      "Front address: 198.51.100.9 works",
      "Proxy: 443, PROXY v2 unknown",
      "Ingress controller: ingress-nginx/ingress-nginx-controller unknown",
    ],
  );
});

test("it ends where the reason is: at the object, at the target, or at its address", () => {
  const reason = (code: string) => ({ code, text: "t" });
  assert.equal(states({ target: undefined, reason: reason("conflict") }), "broken beyond beyond beyond beyond");
  assert.equal(states({ target: undefined, reason: reason("no-target") }), "works broken beyond beyond beyond");
  assert.equal(states({ addresses: [], reason: reason("target-without-address") }), "works works broken beyond beyond");
  assert.equal(wayOf(REFUSED, fullStatus())[1]?.reason, REFUSED.reason);
});

test("a warning stands at the address, and ends nothing", () => {
  const warning = { code: "dns-elsewhere", text: "t" };
  assert.equal(states({ warning }), "works works warning unknown unknown");
  assert.equal(wayOf({ ...NAME, warning }, fullStatus())[2]?.reason, warning);
});

test("a target without relay has no proxy on its way, and a file is where the claim is", () => {
  const [target] = fullStatus().targets;
  assert.ok(target);
  const direct = { targets: [{ ...target, relayed: false, ports: [] }] };
  assert.equal(
    wayOf(NAME, direct)
      .map(({ title }) => title)
      .join(),
    "Ingress,Target,Address,Ingress controller",
  );
  const [source] = wayOf({ ...NAME, from: { ...NAME.from, file: "a.yaml" } }, direct);
  assert.deepEqual(source?.values, ["a.yaml"]);
});
