import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "./parse.ts";

test("an empty configuration has one target: ingress-nginx, which gets the PROXY protocol on 80 and 443", () => {
  const { targets } = parseConfig({});
  assert.deepEqual(targets, [
    {
      name: "ingress-nginx",
      upstream: { service: { namespace: "ingress-nginx", name: "ingress-nginx-controller" } },
      classes: [],
      ports: [
        { port: 80, protocol: "auto" },
        { port: 443, protocol: "auto" },
      ],
      clusterIPs: [],
    },
  ]);
});

test("the limits of the design are the defaults", () => {
  const { map, inject, policy, webhook, proxy } = parseConfig({});
  assert.deepEqual(map, {
    vanishSeconds: 60,
    guardNames: 10,
    guardHoldSeconds: 300,
    publicationsPerSecond: 2,
    bytesPerSecond: 200_000,
  });
  assert.deepEqual(inject, { maxNames: 500, warnNames: 200 });
  assert.equal(policy.maxNamesPerNamespace, 250);
  assert.equal(webhook.maxBodyBytes, 3 * 1024 * 1024);
  assert.ok(proxy.maxConnectionsPerSource * 5 < proxy.maxConnections, "five sources cannot fill a replica");
  assert.ok(proxy.halfClosedTimeoutSeconds <= 60);
});

const GOOD: ReadonlyArray<readonly [what: string, config: object]> = [
  ["an address as the upstream", { targets: [{ name: "a", upstream: { host: "192.0.2.1" } }] }],
  ["an IPv6 address as the upstream", { targets: [{ name: "a", upstream: { host: "2001:db8::1" } }] }],
  ["a name with a final dot as the upstream", { targets: [{ name: "a", upstream: { host: "lb.example.com." } }] }],
  ["a compose service as the upstream", { targets: [{ name: "a", upstream: { host: "my_lb" } }] }],
  ["dual-stack addresses", { targets: [{ name: "a", upstream: { host: "h" }, clusterIPs: ["10.0.0.1", "fd00::1"] }] }],
  [
    "no PROXY header, with an address",
    {
      targets: [
        { name: "a", upstream: { host: "h" }, clusterIPs: ["10.0.0.1"], ports: [{ port: 80, protocol: "none" }] },
      ],
    },
  ],
  ["no target", { targets: [] }],
  ["patterns", { policy: { allowDomains: ["*", "*.local", "a.example.com", "*.xn--p1ai"] } }],
  ["a domain with a final dot", { clusterDomain: "cozy.local." }],
  ["certificate files", { certs: { mode: "files", certFile: "a", keyFile: "b" } }],
];
for (const [what, config] of GOOD) test(`accepted: ${what}`, () => assert.ok(parseConfig(config)));
