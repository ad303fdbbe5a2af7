import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { testSettings } from "#test/fakes/setting-limits.ts";
import { POD_DNS_SECTION, settingsOfResolver } from "./config.ts";

const SECTIONS = [POD_DNS_SECTION];
const PORT = [0, 65_535] as const;

testSettings(
  {
    "podDns.port": [1, 65_535],
    "podDns.healthPort": PORT,
    "podDns.coreDnsHealthPort": [1, 65_535],
    "podDns.coreDnsReadyPort": [1, 65_535],
    "podDns.coreDnsMetricsPort": [1, 65_535],
    "podDns.ttlSeconds": [1, 2_000_000],
    "podDns.reloadMs": [50, 60_000],
  },
  {
    "podDns.upstream": [
      ["/etc/resolv.conf", "192.0.2.53", "192.0.2.53:5353", "[2001:db8::53]:53"],
      ["", "a b", "a;b", "a\nb", "a{b", '"a"'],
    ],
    "podDns.directory": [
      ["/run/switchback-dns", "/d"],
      ["", "/", "/d/", "d", "/a b"],
    ],
  },
  SECTIONS,
);

test("the defaults", () => {
  assert.deepEqual(settingsOf(parseConfig({}, SECTIONS), POD_DNS_SECTION), {
    enabled: false,
    resolvers: ["switchback-dns-a", "switchback-dns-b"],
    address: "::",
    port: 1_053,
    healthPort: 8_084,
    coreDnsHealthPort: 8_085,
    coreDnsReadyPort: 8_086,
    coreDnsMetricsPort: 9_153,
    upstream: "/etc/resolv.conf",
    directory: "/run/switchback-dns",
    ttlSeconds: 5,
    revision: "none",
    reloadMs: 100,
    resolvConf: "/etc/resolv.conf",
  });
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
