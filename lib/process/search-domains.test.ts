import assert from "node:assert/strict";
import { test } from "node:test";
import { searchesIn, searchesOfPods } from "./search-domains.ts";

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
