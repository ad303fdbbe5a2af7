import assert from "node:assert/strict";
import { test } from "node:test";
import { isPublicTld } from "./public-tlds.ts";

test("public top-level domains of every kind are known, and names of namespaces are not among them", () => {
  for (const tld of ["com", "dev", "app", "qa", "museum", "xn--p1ai", "arpa"]) assert.ok(isPublicTld(tld), tld);
  for (const label of ["payments", "vault", "corp", "local", "internal", "svc", "constructor", ""]) {
    assert.equal(isPublicTld(label), false, label);
  }
});
