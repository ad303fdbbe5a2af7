import assert from "node:assert/strict";
import { test } from "node:test";
import type { Reason } from "#hostmap/types.ts";
import { anyText, fc } from "#test/property.ts";
import { buildDnsConfig, type ClusterDns, nodeSearchesNotice, readClusterDns } from "./dns-config.ts";

const OWN = "switchback-system";
const RESOLVERS = ["10.96.0.11", "10.96.0.12"];
const KUBELET = `search ${OWN}.svc.cluster.local svc.cluster.local cluster.local
nameserver 10.96.0.10
options ndots:5
`;

function read(text: string, searches?: readonly string[]): ClusterDns {
  const cluster = readClusterDns(text, OWN, searches);
  assert.ok(!("code" in cluster));
  return cluster;
}

/** The search list of a pod of `shop`. */
function searchesOf(text: string, searches?: readonly string[]): readonly string[] {
  return buildDnsConfig({ resolvers: RESOLVERS, cluster: read(text, searches) }, "shop")?.searches ?? [];
}

test("a pod gets the resolvers, and the other settings of ClusterFirst in its own namespace", () => {
  assert.deepEqual(buildDnsConfig({ resolvers: RESOLVERS, cluster: read(KUBELET) }, "shop"), {
    nameservers: RESOLVERS,
    searches: ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local"],
    options: [
      { name: "ndots", value: "5" },
      { name: "timeout", value: "1" },
      { name: "attempts", value: "2" },
    ],
  });
});

test("the servers of the cluster are those of the file, in its order", () => {
  assert.deepEqual(read(`${KUBELET}nameserver fd00::a\nnameserver\n`).servers, ["10.96.0.10", "fd00::a"]);
});

for (const [what, text, expected] of [
  ["another cluster domain", `search ${OWN}.svc.k8s.corp svc.k8s.corp k8s.corp`, ["k8s.corp"]],
  [
    "domains of the node, once each, in lower case and without a final dot",
    `search ${OWN}.svc.c.local svc.c.local c.local Corp.Example. corp.example a.example`,
    ["c.local", "corp.example", "a.example"],
  ],
  [
    "no domain that the API server would refuse the pod for",
    `search ${OWN}.svc.c.local svc.c.local c.local . a_b.example -a.example ${"x".repeat(254)} ok.example`,
    ["c.local", "ok.example"],
  ],
  ["the last of several search lines", `search a.example\nsearch ${OWN}.svc.c.local svc.c.local c.local`, ["c.local"]],
] as const) {
  test(`the search list has ${what}`, () => {
    const [first, second, ...rest] = searchesOf(text);
    const domain = expected[0];
    assert.deepEqual([first, second, rest], [`shop.svc.${domain}`, `svc.${domain}`, expected]);
  });
}

test("configured search domains replace the node's, even by an empty list", () => {
  const text = KUBELET.replace("cluster.local\n", "cluster.local node.example\n");
  assert.deepEqual(searchesOf(text, ["corp.example"]).slice(3), ["corp.example"]);
  assert.deepEqual(searchesOf(text, []).slice(3), []);
  assert.deepEqual(searchesOf(text).slice(3), ["node.example"]);
});

test("a notice names the node's search domains, unless search domains are configured", () => {
  const text = KUBELET.replace("cluster.local\n", "cluster.local node.example\n");
  const { code, text: said } = nodeSearchesNotice(read(text), undefined) ?? assert.fail("nothing is said");
  assert.deepEqual([code, said.includes("this node has node.example")], ["dns-node-searches", true]);
  assert.equal(nodeSearchesNotice(read(text), ["node.example"]), undefined);
  assert.equal(nodeSearchesNotice(read(KUBELET), undefined), undefined);
});

test("options stay, except those that limit a look-up", () => {
  const { options } = read(`${KUBELET}options edns0 timeout:30 rotate attempts:9 a:b:c\n`);
  const config = buildDnsConfig({ resolvers: RESOLVERS, cluster: { ...read(KUBELET), options } }, "shop");
  assert.deepEqual(
    config?.options?.map(({ name, value }) => `${name}=${value}`),
    ["ndots=5", "edns0=undefined", "rotate=undefined", "a=b:c", "timeout=1", "attempts=2"],
  );
});

for (const [what, text] of [
  ["of a node", "nameserver 192.0.2.53\nsearch corp.example\n"],
  ["of a pod of another namespace", KUBELET.replace(OWN, "other")],
  ["without a search list", "nameserver 10.96.0.10\n"],
  ["with a cluster domain that is none", `search ${OWN}.svc._x svc._x _x\n`],
  ["that is empty", ""],
] as const) {
  test(`a resolv.conf ${what} gives a reason`, () => {
    assert.equal((readClusterDns(text, OWN) as Reason).code, "dns-not-cluster-first");
  });
}

test("a namespace that makes no valid search domain gets no config", () => {
  const cluster = read(KUBELET);
  for (const namespace of ["", "a".repeat(250), "Shop"])
    assert.equal(buildDnsConfig({ resolvers: RESOLVERS, cluster }, namespace), undefined);
});

test("with any resolv.conf, the API server accepts the pod, and the cluster's domains come first", () => {
  const word = fc.oneof(
    fc.domain(),
    anyText(),
    fc.nat(270).map((length) => "x".repeat(length)),
    fc.constantFrom(".", "cluster.local", "a.example.", "A.Example", "svc.cluster.local"),
  );
  const lines = fc.array(
    fc.oneof(
      word,
      fc.tuple(fc.constantFrom("options", "nameserver"), word).map((all) => all.join(" ")),
    ),
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 60 }), lines, (searches, more) => {
      const first = `search ${OWN}.svc.cluster.local svc.cluster.local cluster.local`;
      const text = [...more.filter((line) => !/^\s*search\b/.test(line)), `${first} ${searches.join(" ")}`].join("\n");
      const cluster = readClusterDns(text, OWN);
      if ("code" in cluster) return;
      const config = buildDnsConfig({ resolvers: RESOLVERS, cluster }, "shop");
      const found = config?.searches ?? [];
      assert.deepEqual(found.slice(0, 3), ["shop.svc.cluster.local", "svc.cluster.local", "cluster.local"]);
      assert.ok(found.length <= 32 && found.join(" ").length <= 2048);
      for (const search of found)
        assert.match(search, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/);
      assert.ok((config?.options ?? []).every(({ name }) => name));
      assert.equal(new Set(found).size, found.length);
    }),
  );
});

test("search domains beyond the limits of Kubernetes are cut from the end", () => {
  const many = Array.from({ length: 40 }, (_, index) => `d${index}.example`);
  assert.equal(searchesOf(KUBELET, many).length, 32);
  const long = Array.from({ length: 20 }, (_, index) => `${"x".repeat(60)}.${"y".repeat(60)}.${index}.example`);
  const found = searchesOf(KUBELET, long);
  assert.ok(found.join(" ").length <= 2048 && found.join(" ").length > 1900);
  assert.deepEqual(found.slice(3), long.slice(0, found.length - 3));
});
