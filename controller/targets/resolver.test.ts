import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { RoutingHints } from "../sources/types.ts";
import { classResolver } from "./resolver.ts";

const hints: RoutingHints = { className: "nginx", addresses: ["203.0.113.9"], admitted: true };

test("targets are resolved by class only, regardless of addresses", () => {
  const resolver = classResolver(parseConfig({}).targets);
  assert.equal(resolver.resolve(hints), "ingress-nginx");
  assert.equal(resolver.resolve({ ...hints, addresses: [], admitted: false }), "ingress-nginx");
});

test("a single target without classes serves every class, except load balancers outside the cluster", () => {
  const resolver = classResolver(parseConfig({}).targets);
  assert.equal(resolver.resolve({ ...hints, className: undefined }), "ingress-nginx");
  assert.equal(resolver.resolve({ ...hints, className: "anything" }), "ingress-nginx");
  const outside = resolver.resolve({ ...hints, className: "gce" });
  assert.equal(typeof outside === "string" || outside.code, "another-controller");
});
