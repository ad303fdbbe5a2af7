import assert from "node:assert/strict";
import { test } from "node:test";
import { anyText, fc } from "#test/property.ts";
import { isIngressNginx, nginxNames } from "./ingress-nginx-names.ts";

const ALIAS = "nginx.ingress.kubernetes.io/server-alias";
const WWW = "nginx.ingress.kubernetes.io/from-to-www-redirect";
const CANARY = "nginx.ingress.kubernetes.io/canary";
const MAIN = ["main.com"];

type Case = readonly [annotations: object, names: readonly string[], ruleHosts?: readonly string[], hosts?: string[]];
const CASES: readonly Case[] = [
  // Source: kubernetes/ingress-nginx, internal/ingress/annotations/alias/main_test.go, TestParse.
  [{ [ALIAS]: "a.com, b.com, ,    c.com" }, ["a.com", "b.com", "c.com"]],
  [{ [ALIAS]: "www.example.com" }, ["www.example.com"]],
  [{ [ALIAS]: "*.example.com,www.example.*" }, ["*.example.com", "www.example.*"]],
  [{ [ALIAS]: "~^www\\d+\\.example\\.com$" }, ["~^www\\d+\\.example\\.com$"]],
  [{ [ALIAS]: "a.com,a.com, main.com" }, ["a.com"]],
  [{ [ALIAS]: "a.com b.com" }, ["a.com b.com"]],
  [{}, []],
  [{ [ALIAS]: "" }, []],
  [{ [ALIAS]: 7, [WWW]: true }, []],
  [{ [ALIAS]: "a.com", [CANARY]: "true" }, []],
  [{ [ALIAS]: "a.com" }, [], []],
  // The server for all names has aliases, too.
  [{ [ALIAS]: "a.com" }, ["a.com"], [""]],
  [{ [ALIAS]: "a.com", [WWW]: "true" }, ["www.main.com", "a.com"]],
  // As in BuildRedirects.
  ...["true", "TRUE", "True", "t", "T", "1"].map(
    (yes): Case => [{ [WWW]: yes }, ["www.main.com", "shop.com"], ["main.com", "www.shop.com", "", "*.wild.com"]],
  ),
  ...["false", "yes", "tRUE", "0", " true"].map((no): Case => [{ [WWW]: no }, []]),
  // A host is no redirect, nor is a host of the certificate.
  [{ [WWW]: "true" }, [], ["main.com", "www.main.com"]],
  [{ [WWW]: "true" }, [], MAIN, ["main.com", "www.main.com"]],
];
for (const [annotations, names, ruleHosts = MAIN, hosts = ruleHosts] of CASES) {
  test(`ingress-nginx serves ${names.join() || "nothing more"} with ${JSON.stringify(annotations)}`, () => {
    assert.deepEqual(nginxNames({ ...annotations }, ruleHosts, hosts), names);
  });
}

test("the class or its controller says whether ingress-nginx serves an Ingress", () => {
  for (const [className, controller, expected] of [
    ["nginx", undefined, true],
    ["other", undefined, false],
    [undefined, undefined, false],
    ["edge", "k8s.io/ingress-nginx", true],
    ["nginx", "nginx.org/ingress-controller", false],
  ] as const) {
    assert.equal(isIngressNginx(className, controller), expected, `${className} ${controller}`);
  }
});

test("hostile: a quarter of a megabyte of aliases takes bounded time, and few names are kept", () => {
  const begun = process.cpuUsage();
  for (const text of [",".repeat(262_144), "a,".repeat(131_072), `${"x".repeat(262_000)},a.com`]) {
    assert.ok(nginxNames({ [ALIAS]: text }, MAIN, MAIN).length <= 2);
  }
  const many = Array.from({ length: 20_000 }, (_, index) => `h${index}.com`).join();
  assert.equal(nginxNames({ [ALIAS]: many }, MAIN, MAIN).length, 1_001);
  const { user, system } = process.cpuUsage(begun);
  assert.ok((user + system) / 1_000 < 500, `${(user + system) / 1_000} ms`);
});

test("property: any annotations are read without an exception, and no name is empty", () => {
  const value = fc.oneof(anyText(), fc.jsonValue());
  const property = fc.property(value, value, fc.array(anyText()), (alias, www, hosts) => {
    assert.ok(!nginxNames({ [ALIAS]: alias, [WWW]: www }, hosts, hosts).includes(""));
  });
  fc.assert(property);
});
