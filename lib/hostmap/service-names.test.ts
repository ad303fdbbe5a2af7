import assert from "node:assert/strict";
import { test } from "node:test";
import { serviceNameOf } from "./service-names.ts";

const CASES: ReadonlyArray<readonly [hostname: string, service: string | undefined]> = [
  ["api.payments", "payments/api"],
  ["pod-0.api.payments", "payments/api"],
  ["*.api.payments", "payments/api"],
  ["a.b.c.payments", undefined],
  ["payments", undefined],
];
for (const [hostname, expected] of CASES) {
  test(`${hostname} stands for ${expected}`, () => {
    const service = serviceNameOf(hostname);
    assert.equal(service && `${service.namespace}/${service.name}`, expected);
  });
}
