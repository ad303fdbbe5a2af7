import assert from "node:assert/strict";
import { test } from "node:test";
import { clusterDomainDiffers, clusterDomainFrom, searchesIn, searchesOfPods } from "./resolv-conf.ts";

const CASES: ReadonlyArray<readonly [what: string, text: string, domain: string | undefined]> = [
  [
    "a pod's",
    "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\nnameserver 10.96.0.10\noptions " +
      "ndots:5\n",
    "cluster.local",
  ],
  [
    "another domain, tabs, upper case and a final dot",
    "nameserver 10.96.0.10\nsearch\tshop.svc.Cozy.Local.\tsvc.Cozy.Local.\n",
    "cozy.local",
  ],
  ["a namespace called svc", "search svc.svc.cozy.local svc.cozy.local cozy.local\n", "cozy.local"],
  ["a domain that begins with svc", "search shop.svc.svc.corp svc.svc.corp svc.corp\n", "svc.corp"],
  ["a machine in a domain called svc", "search svc.example\n", undefined],
  ["a machine's", "search corp.example\nnameserver 192.0.2.1\n", undefined],
  ["a comment", "# search svc.cluster.local\n", undefined],
  ["nothing behind svc.", "search svc.\n", undefined],
  ["an empty file", "", undefined],
];
for (const [what, text, domain] of CASES) {
  test(`${what}: ${domain ?? "none"}`, () => assert.equal(clusterDomainFrom(text), domain));
}

test("a configured domain that differs from the pod's yields a reason, which names both", () => {
  const resolvConf = "search ours.svc.cozy.local svc.cozy.local cozy.local\n";
  const { code, text } = clusterDomainDiffers("cluster.local", resolvConf) ?? assert.fail();
  assert.equal(code, "cluster-domain-differs");
  assert.match(text, /^clusterDomain is cluster\.local, but .* has svc\.cozy\.local$/);
  for (const same of ["cozy.local", "Cozy.Local.", undefined])
    assert.equal(clusterDomainDiffers(same, resolvConf), undefined);
  assert.equal(clusterDomainDiffers("cluster.local", "search corp.example\n"), undefined, "not a pod's");
});

const SEARCH = "shop.svc.cluster.local svc.cluster.local cluster.local Eu-Central-1.compute.internal.";
const POD = `search ${SEARCH}\nnameserver 10.96.0.10\n`;

test("the search domains of a pod are in lower case and without a final dot", () => {
  const expected = ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local", "eu-central-1.compute.internal"];
  assert.deepEqual(searchesIn(POD), expected);
  assert.deepEqual(searchesIn(`${POD}search last.example\n`), ["last.example"]);
  assert.deepEqual(searchesIn(""), []);
});

test("the search domains that pod DNS gives to pods are included", () => {
  assert.deepEqual(searchesOfPods("search a.example", { podDns: { searches: ["b.example"] } }), [
    "a.example",
    "b.example",
  ]);
  assert.deepEqual(searchesOfPods("search a.example", { podDns: {} }), ["a.example"]);
  assert.deepEqual(searchesOfPods("search a.example", {}), ["a.example"]);
});
