import assert from "node:assert/strict";
import { test } from "node:test";
import type { SelfEndpoints } from "./engine.ts";
import { isSelf } from "./is-self.ts";
import type { Endpoint } from "./proxy-header.ts";

const OWN: SelfEndpoints = {
  interfaceAddresses: ["10.0.0.7", "2001:DB8::7"],
  frontEndpoints: [
    { address: "10.96.0.9", port: 443 },
    { address: "fd00::9", port: 443 },
  ],
};
const ANY: readonly Endpoint[] = [{ address: "::", port: 15_443 }];
const ANY_V4: readonly Endpoint[] = [{ address: "0.0.0.0", port: 15_443 }];
const HERE: readonly Endpoint[] = [{ address: "10.0.0.7", port: 15_443 }];
const ONE: readonly Endpoint[] = [{ address: "127.0.0.1", port: 15_443 }];

const cases: [string, string, number, readonly Endpoint[], boolean][] = [
  ["its own IPv4 address and port", "10.0.0.7", 15_443, ANY, true],
  ["its own IPv6 address and port", "2001:db8::7", 15_443, ANY, true],
  ["its own IPv6 address in another notation", "2001:DB8:0::7", 15_443, ANY, true],
  ["its own address, IPv4-mapped", "::ffff:10.0.0.7", 15_443, ANY, true],
  ["its own address at another port", "10.0.0.7", 443, ANY, false],
  ["another address at its port", "10.0.0.8", 15_443, ANY, false],
  ["any loopback address at its port", "127.8.8.8", 15_443, ANY, true],
  ["the unspecified address, which Linux connects to loopback", "0.0.0.0", 15_443, ANY, true],
  ["the unspecified IPv6 address", "::", 15_443, ANY, true],
  ["the IPv6 loopback address at its port", "::1", 15_443, ANY, true],
  ["the IPv6 loopback address where only IPv4 is bound", "::1", 15_443, ANY_V4, false],
  ["the unspecified IPv6 address where only IPv4 is bound", "::", 15_443, ANY_V4, false],
  ["a loopback address where all IPv4 is bound", "127.0.0.1", 15_443, ANY_V4, true],
  ["the unspecified address where another than loopback is bound", "0.0.0.0", 15_443, HERE, false],
  ["the only bound address, which is not loopback", "10.0.0.7", 15_443, HERE, true],
  ["an address at the port of the second listener", "10.0.0.7", 15_443, [...ONE, ...HERE], true],
  ["the unspecified IPv6 address where IPv6 loopback is bound", "::", 15_443, [{ address: "::1", port: 15_443 }], true],
  ["an IPv6 address where only IPv4 is bound", "2001:db8::7", 15_443, ANY_V4, false],
  ["an IPv4 address where all IPv4 is bound", "10.0.0.7", 15_443, ANY_V4, true],
  ["the only bound address", "127.0.0.1", 15_443, ONE, true],
  ["a loopback address other than the bound one", "127.0.0.2", 15_443, ONE, false],
  ["the unspecified address where loopback is bound", "0.0.0.0", 15_443, ONE, true],
  ["a front Service's ClusterIP and port", "10.96.0.9", 443, [], true],
  ["a front Service's IPv6 ClusterIP in another notation", "fd00:0::9", 443, [], true],
  ["a front Service's ClusterIP at a port that it does not have", "10.96.0.9", 8443, ANY, false],
];

for (const [title, address, port, bound, expected] of cases) {
  test(`${title} is ${expected ? "" : "not "}this proxy`, () =>
    assert.equal(isSelf(address, port, OWN, bound), expected));
}
