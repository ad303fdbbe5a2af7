import assert from "node:assert/strict";
import { test } from "node:test";
import { isPublicTld } from "./public-tlds.ts";
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

test("public top-level domains of every kind are known, and names of namespaces are not among them", () => {
  for (const tld of ["com", "dev", "app", "qa", "museum", "xn--p1ai", "arpa"]) assert.ok(isPublicTld(tld), tld);
  for (const label of ["payments", "vault", "corp", "local", "internal", "svc", "constructor", ""]) {
    assert.equal(isPublicTld(label), false, label);
  }
});
