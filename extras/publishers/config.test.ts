import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { testSettings } from "#test/fakes/setting-limits.ts";
import { PUBLISHERS_SECTION } from "./config.ts";

const SECTIONS = [PUBLISHERS_SECTION];
const PORT = [0, 65_535] as const;
const SECONDS = [0, 2_000_000] as const;

testSettings(
  {
    "publishers.healthPort": PORT,
    "publishers.checkSeconds": [1, 2_000_000],
    "publishers.minIntervalSeconds": SECONDS,
    "publishers.answerSeconds": [10, 2_000_000],
    "publishers.corednsImport.ttlSeconds": [1, 2_000_000],
    "publishers.coredns.ttlSeconds": [1, 2_000_000],
    "publishers.externalDns.ttlSeconds": [1, 86_400],
    "publishers.externalDns.removeWaitSeconds": [0, 600],
  },
  {
    "publishers.externalDns.kind": [["DNSEndpoint", "Service"], ["Ingress"]],
    "publishers.corednsImport.key": [
      ["a.server", "A_b-c"],
      ["", "a/b", "a b", "a".repeat(254)],
    ],
    "publishers.coredns.configMap": [
      ["coredns", "a.b-c"],
      ["", "A", "a/b", "-a"],
    ],
  },
  SECTIONS,
);

test("the defaults", () => {
  assert.deepEqual(settingsOf(parseConfig({}, SECTIONS), PUBLISHERS_SECTION), {
    address: "::",
    healthPort: 8_087,
    checkSeconds: 30,
    minIntervalSeconds: 15,
    answerSeconds: 300,
    corednsImport: {
      enabled: false,
      namespace: "kube-system",
      configMap: "coredns-custom",
      key: "switchback.server",
      corefile: { configMap: "coredns", key: "Corefile" },
      ttlSeconds: 5,
    },
    coredns: {
      enabled: false,
      namespace: "kube-system",
      configMap: "coredns",
      key: "Corefile",
      ttlSeconds: 5,
    },
    externalDns: {
      enabled: false,
      kind: "DNSEndpoint",
      ttlSeconds: 60,
      labels: {},
      annotations: {},
      recordLabels: {},
      removeWaitSeconds: 120,
    },
  });
});
