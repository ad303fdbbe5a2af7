import assert from "node:assert/strict";
import { test } from "node:test";
import { asDnsWildcard, protectNames } from "./protected-names.ts";

const OURS = protectNames("K8s.Corp.Example.");
const WRITER = protectNames("k8s.corp.example", ["eu-central-1.compute.internal", "corp.example", "k8s.corp.example"]);

const NEVER: ReadonlyArray<readonly [name: string, code: string | undefined]> = [
  ["k8s.corp.example", "name-protected"],
  ["kubernetes.default.svc.k8s.corp.example", "name-protected"],
  ["*.k8s.corp.example", "name-protected"],
  ["**.svc.k8s.corp.example", "name-protected"],
  ["**.corp.example", "name-protected"],
  ["**.example", "name-protected"],
  ["shop.corp.example", undefined],
  ["*.corp.example", undefined],
  ["*.example", undefined],
  ["**.shop.corp.example", undefined],
  ["**.notk8s.corp.example", undefined],
  ["**.k8s.corp.example.com", undefined],
  // Sources: KEP-1645, and for the names of pods kubernetes/dns, specification.md 2.3.
  ["api.bank.svc.clusterset.local", "name-protected"],
  ["**.clusterset.local", "name-protected"],
  ["**.local", "name-protected"],
  ["printer.local", undefined],
  ["10-244-0-5.shop.pod", "name-protected"],
  ["*.shop.pod", "name-protected"],
  ["web.shop.svc", "name-protected"],
  ["**.internal", "name-protected"],
  ["*.internal", "name-protected"],
  ["**.org", "name-protected"],
  ["*.test4.buypass.no", "name-protected"],
  ["*.buypass.no", "name-protected"],
  ["**.buypass.com", "name-protected"],
];
for (const [name, code] of NEVER) {
  test(`never ours: ${name} is ${code ?? "not among them"}`, () => {
    assert.equal(OURS(name)?.code, code);
    if (code !== undefined) assert.equal(WRITER(name)?.code, code, "for a writer of DNS, too");
  });
}

const SEARCHED: ReadonlyArray<readonly [name: string, code: string | undefined]> = [
  ["**.eu-central-1.compute.internal", "search-domain"],
  ["**.compute.internal", "search-domain"],
  ["*.eu-central-1.compute.internal", undefined],
  ["*.compute.internal", undefined],
  ["api.github.com.eu-central-1.compute.internal", undefined],
  ["eu-central-1.compute.internal", undefined],
  ["*.corp.example", undefined],
  ["**.shop.corp.example", undefined],
  ["**.us-east-2.compute.internal", undefined],
];
for (const [name, code] of SEARCHED) {
  test(`search domains: ${name} is ${code ?? "written"}`, () => {
    assert.equal(WRITER(name)?.code, code);
    assert.equal(OURS(name), undefined, "those who write no DNS map it");
  });
}

test("a wildcard of one label counts as one of any depth when it becomes a DNS record", () => {
  assert.equal(asDnsWildcard("*.corp.example"), "**.corp.example");
  assert.equal(asDnsWildcard("**.corp.example"), "**.corp.example");
  assert.equal(asDnsWildcard("a.corp.example"), "a.corp.example");
});

test("the texts name the covered suffix", () => {
  const text = (name: string) => WRITER(name)?.text;
  assert.equal(
    text("a.k8s.corp.example"),
    '"a.k8s.corp.example" belongs to the cluster\'s own DNS and is never mapped',
  );
  assert.equal(
    text("**.corp.example"),
    '"*.corp.example", at any depth, covers "k8s.corp.example", which belongs to the cluster\'s own DNS',
  );
  assert.equal(
    text("*.test4.buypass.no"),
    '"*.test4.buypass.no" covers "api.test4.buypass.no", which belongs to a public ACME server',
  );
  assert.equal(
    text("**.compute.internal"),
    '"*.compute.internal", at any depth, would answer every name that pods look up, ' +
      'by their search domain "eu-central-1.compute.internal"',
  );
});
