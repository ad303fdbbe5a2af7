import assert from "node:assert/strict";
import { test } from "node:test";
import { checkConfig, parseConfig } from "#lib/config/parse.ts";
import { POD_DNS_SECTION, settingsOfResolver } from "./config.ts";

const SECTIONS = [POD_DNS_SECTION];

test("an upstream or a directory that would change the Corefile is refused", () => {
  const isRefused = (podDns: object) => checkConfig({ podDns }, SECTIONS).config === undefined;
  for (const upstream of ["", "a b", "a;b", "a\nb", "a{b", '"a"']) assert.ok(isRefused({ upstream }), upstream);
  for (const directory of ["", "/", "/d/", "d", "/a b"]) assert.ok(isRefused({ directory }), directory);
});

test("the chart's variables name the revision and the other resolver; without them the settings count", () => {
  const config = parseConfig({ podDns: { revision: "a", waitFor: "one" } }, SECTIONS);
  const variables = { SWITCHBACK_POD_DNS_REVISION: "b", SWITCHBACK_POD_DNS_WAIT_FOR: "two" };
  for (const [env, expected] of [
    [variables, ["b", "two"]],
    [{}, ["a", "one"]],
  ] as const) {
    const { revision, waitFor } = settingsOfResolver(config, env);
    assert.deepEqual([revision, waitFor], expected);
  }
});
