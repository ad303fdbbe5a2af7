import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { ANSWERED, MISREAD, nginx, probe, rowsOf, services, TIMEOUT } from "#test/fakes/doctor-changes.ts";
import { CLOSED, HEALTHY, NGINX, NOT_INSTALLED, type Ways } from "#test/fakes/doctor-facts.ts";
import type { ClusterFacts } from "../facts.ts";

// HAProxy Technologies' ingress controller, with the nodes in its list. From a node's address, it closes a connection
// without a header. From any other address, it reads a header as the request.

const SERVICE = { ...NGINX, ports: NGINX.ports.slice(0, 1) };
const LISTED = { service: SERVICE, none: ANSWERED, v1: MISREAD, v2: MISREAD, balancerV1: ANSWERED };
const withTarget = (ways: Ways) => ({ ...nginx({ ports: SERVICE.ports }), ...probe(ways) });

const BY_ADDRESS =
  "broken header-by-address | Service ingress-nginx/ingress-nginx-controller port 80 | it demands a header from the " +
  "addresses in its list, and refuses one from others: at its load balancer's address pods have the address of a " +
  "node, and need one; it refuses one from the probe pod's own address, as from a proxy that is not in the list: " +
  "from the probe pod's address, without a header: HTTP 404; with v1: HTTP 400; with v2: HTTP 400; at its load " +
  "balancer's address: the connection was reset; there with v1, it answers | configure the ingress controller to " +
  "trust PROXY headers from the proxy pods' addresses (ingress-nginx `proxy-real-ip-cidr`, Traefik " +
  "`proxyProtocol.trustedIPs`, IBM's ALB `--cidr`) | or annotate the Service with `switchback.dev/map: always` and " +
  "`switchback.dev/proxy-protocol: none`: its names then lead to its ClusterIPs, where pods need no header";

const FROM_PROXIES =
  "ok header-accepted-from-proxies | Service ingress-nginx/ingress-nginx-controller port 80 | it accepts v1 from the " +
  "proxies' addresses, but not from the probe pod's: from the probe pod's address, without a header: HTTP 404; with " +
  "v1: HTTP 400; with v2: HTTP 400; at its load balancer's address: the connection was reset";

const CASES: readonly [what: string, change: Partial<ClusterFacts>, finding: string][] = [
  ["without a target", { ...NOT_INSTALLED, ...probe(LISTED) }, BY_ADDRESS],
  ["the proxies are not in the list", withTarget({ ...LISTED, front: MISREAD }), BY_ADDRESS],
  ["the proxies are in the list", withTarget(LISTED), FROM_PROXIES],
];

describe("a port that demands a header from some addresses, and refuses one from others", () => {
  for (const [what, change, finding] of CASES)
    test(what, () => assert.deepEqual(rowsOf("headers", { ...HEALTHY, ...change }), [finding]));
});

test("if the ingress controller can accept both, the first cure is its own setting", () => {
  const service = {
    ...SERVICE,
    labels: { "app.kubernetes.io/managed-by": "envoy-gateway" },
    entries: [{ hostname: "lb.elb.example.com" }],
  };
  const facts = { ...HEALTHY, ...NOT_INSTALLED, ...probe({ service, none: CLOSED, balancer: TIMEOUT }) };
  const [finding = ""] = rowsOf("headers", { ...facts, ...services(service) });
  const [kind, , , cure] = finding.split(" | ");
  assert.equal(kind, "broken pods-cut-off");
  assert.match(cure ?? "", /^Envoy Gateway: set `proxyProtocol: \{ optional: true \}`/);
});
