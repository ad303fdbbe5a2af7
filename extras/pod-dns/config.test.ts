import assert from "node:assert/strict";
import { test } from "node:test";
import { checkConfig } from "#lib/config/parse.ts";
import { POD_DNS_SECTION } from "./config.ts";

const SECTIONS = [POD_DNS_SECTION];

test("an upstream or a directory that would change the Corefile is refused", () => {
  const isRefused = (podDns: object) => checkConfig({ podDns }, SECTIONS).config === undefined;
  for (const upstream of ["", "a b", "a;b", "a\nb", "a{b", '"a"']) assert.ok(isRefused({ upstream }), upstream);
  for (const directory of ["", "/", "/d/", "d", "/a b"]) assert.ok(isRefused({ directory }), directory);
});
