import assert from "node:assert/strict";
import { test } from "node:test";
import { readPod } from "#webhook/admitted-pod.ts";
import { readResolution } from "./pod-resolution.ts";

function read(spec: object) {
  const object = { metadata: { annotations: { a: "b" } }, spec };
  return readResolution(object, readPod(object), "shop");
}

const NOTHING = { ...readPod({ metadata: { annotations: { a: "b" } }, spec: {} }), namespace: "shop" };

test("missing and null fields of a pod are read as the defaults", () => {
  const defaults = { ...NOTHING, hostNetwork: false, dnsPolicy: undefined, dnsConfig: undefined };
  assert.deepEqual(read({}), defaults);
  assert.deepEqual(read({ hostNetwork: null, dnsPolicy: null, dnsConfig: null }), defaults);
});

test("a pod's own DNS settings are read unchanged", () => {
  const dnsConfig = { nameservers: ["192.0.2.53"], searches: null, options: [{ name: "ndots", value: "2" }] };
  const spec = { hostNetwork: true, dnsPolicy: "None", dnsConfig };
  assert.deepEqual(read(spec), { ...NOTHING, ...spec });
});

for (const [field, value] of [
  ["hostNetwork", "yes"],
  ["dnsPolicy", 1],
  ["dnsConfig", []],
  ["dnsConfig", "x"],
  ["dnsConfig", { nameservers: "192.0.2.53" }],
  ["dnsConfig", { nameservers: [1] }],
  ["dnsConfig", { searches: [null] }],
  ["dnsConfig", { options: ["ndots"] }],
] as const) {
  test(`a pod with ${field} ${JSON.stringify(value)} cannot be read`, () => {
    const text = `the pod cannot be read: spec.${field}: is not valid`;
    assert.deepEqual(read({ [field]: value }), { code: "pod-malformed", text });
  });
}
