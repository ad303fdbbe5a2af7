import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { BACKEND, gatewayObject, gatewayWorld, HTTP, INFRA, routeObject } from "#test/fakes/gateway-objects.ts";
import type { Raw } from "../raw-object.ts";
import { viewGateway, viewRoute } from "./view.ts";

// The examples of the specification's conformance suite (kubernetes-sigs/gateway-api, conformance/tests, v1.4). Each
// has the names for which requests of clients are served, or the reason why there are none.

const same = (...hostnames: (string | undefined)[]) =>
  hostnames.map((hostname) => ({ from: "Same", ...(hostname !== undefined && { hostname }) }));

const tls = (hostname: string | undefined) => [
  {
    port: 443,
    protocol: "TLS",
    from: "Same",
    kinds: [{ kind: "TLSRoute" }],
    ...(hostname !== undefined && { hostname }),
  },
];

const ISOLATED = [
  { name: "empty-hostname", from: "All" },
  { name: "wildcard-example-com", hostname: "*.example.com", from: "All" },
  { name: "wildcard-foo-example-com", hostname: "*.foo.example.com", from: "All" },
  { name: "abc-foo-example-com", hostname: "abc.foo.example.com", from: "All" },
];

const GATEWAYS = [
  gatewayObject("same-namespace", [{ name: "http", from: "Same" }]),
  gatewayObject("all-namespaces", [{ name: "http", from: "All" }]),
  gatewayObject("backend-namespaces", [
    { name: "http", from: "Selector", selector: { matchLabels: { "gateway-conformance": "backend" } } },
  ]),
  gatewayObject("httproute-hostname-intersection", same("very.specific.com", "*.wildcard.io", "*.anotherwildcard.io")),
  gatewayObject("httproute-hostname-intersection-all", same(undefined)),
  gatewayObject("listener-hostname-matching", same("bar.com", "foo.bar.com", "*.bar.com", "*.foo.com")),
  gatewayObject("httproute-listener-port-matching", [
    { hostname: "foo.com", port: 80 },
    { hostname: "foo.com", port: 8080 },
    { hostname: "bar.com", port: 8080 },
    { hostname: "foo.com", port: 8090 },
    { hostname: "bar.com", port: 8090 },
  ]),
  gatewayObject("gateway-with-one-not-matching-port-and-section-name-route", [
    { name: "http", from: "All", kinds: [{ kind: "HTTPRoute" }] },
  ]),
  gatewayObject("tlsroutes-only", tls(undefined)),
  gatewayObject("gateway-tlsroute", tls("*.example.com")),
  gatewayObject("gateway-tlsroute-exact-hostname-intersection", tls("abc.example.com")),
  gatewayObject("gateway-tlsroute-more-specific-wildcard-hostname-intersection", tls("*.example.com")),
  gatewayObject("gateway-tlsroute-empty-hostname-intersection", tls(undefined)),
  gatewayObject("http-listener-isolation", ISOLATED),
  gatewayObject("http-listener-isolation-with-hostname-intersection", ISOLATED),
].map((raw) => viewGateway(raw));

const WORLD = gatewayWorld();
for (const gateway of GATEWAYS) WORLD.put(gateway);
WORLD.labels.set(INFRA, { "gateway-conformance": "infra" }).set(BACKEND, { "gateway-conformance": "backend" });

/** The names that have a target, and the other names with their codes. */
function outcome(kind: string, route: Raw): string[] {
  return WORLD.outcome(WORLD.put(viewRoute(route, kind)));
}

interface Example {
  readonly kind?: string;
  readonly parents: readonly (string | Raw)[];
  readonly hostnames?: readonly string[];
  readonly namespace?: string;
  readonly expected: readonly string[];
}

const at = (name: string, sectionName?: string, port?: number): Raw => ({
  name,
  namespace: INFRA,
  ...(sectionName && { sectionName }),
  ...(port && { port }),
});
const section = (sectionName: string) => at("listener-hostname-matching", sectionName);
const INTERSECTION = ["httproute-hostname-intersection"];
const isolated = (sectionName: string) => at("http-listener-isolation", sectionName);
/** All four routes have the same hosts, and each attaches to its own listener. */
const intersecting = (sectionName: string, expected: readonly string[]): Example => ({
  parents: [at("http-listener-isolation-with-hostname-intersection", sectionName)],
  hostnames: ["bar.com", "*.example.com", "*.foo.example.com", "abc.foo.example.com"],
  expected,
});

const EXAMPLES: Readonly<Record<string, Readonly<Record<string, Example>>>> = {
  HTTPRouteHostnameIntersection: {
    "specific-host-matches-listener-specific-host": {
      parents: INTERSECTION,
      hostnames: ["non.matching.com", "*.nonmatchingwildcard.io", "very.specific.com"],
      expected: [
        "non.matching.com: no-matching-listener",
        "*.nonmatchingwildcard.io: no-matching-listener",
        "very.specific.com",
      ],
    },
    "specific-host-matches-listener-wildcard-host": {
      parents: INTERSECTION,
      hostnames: ["non.matching.com", "wildcard.io", "foo.wildcard.io", "bar.wildcard.io", "foo.bar.wildcard.io"],
      expected: [
        "non.matching.com: no-matching-listener",
        "wildcard.io: no-matching-listener",
        "foo.wildcard.io",
        "bar.wildcard.io",
        "foo.bar.wildcard.io",
      ],
    },
    "wildcard-host-matches-listener-specific-host": {
      parents: INTERSECTION,
      hostnames: ["non.matching.com", "*.specific.com"],
      expected: ["non.matching.com: no-matching-listener", "very.specific.com"],
    },
    "wildcard-host-matches-listener-wildcard-host": {
      parents: INTERSECTION,
      hostnames: ["*.anotherwildcard.io"],
      expected: ["*.anotherwildcard.io"],
    },
    "no-intersecting-hosts": {
      parents: INTERSECTION,
      hostnames: ["specific.but.wrong.com", "wildcard.io"],
      expected: ["specific.but.wrong.com: no-matching-listener", "wildcard.io: no-matching-listener"],
    },
    "httproute-hostname-intersection-all": {
      parents: ["httproute-hostname-intersection-all"],
      hostnames: ["first.com", "sub.first.com", "second.com", "sub.second.com"],
      expected: ["first.com", "sub.first.com", "second.com", "sub.second.com"],
    },
  },
  HTTPRouteListenerHostnameMatching: {
    "backend-v1": { parents: [section("listener-1")], expected: ["bar.com"] },
    "backend-v2": { parents: [section("listener-2")], expected: ["foo.bar.com"] },
    "backend-v3": { parents: [section("listener-3"), section("listener-4")], expected: ["*.bar.com", "*.foo.com"] },
  },
  GRPCRouteListenerHostnameMatching: {
    "backend-v1": { kind: "GRPCRoute", parents: [section("listener-1")], expected: ["bar.com"] },
    "backend-v2": { kind: "GRPCRoute", parents: [section("listener-2")], expected: ["foo.bar.com"] },
    "backend-v3": {
      kind: "GRPCRoute",
      parents: [section("listener-3"), section("listener-4")],
      expected: ["*.bar.com", "*.foo.com"],
    },
  },
  HTTPRouteListenerPortMatching: {
    "backend-v1": { parents: [at("httproute-listener-port-matching", undefined, 80)], expected: ["foo.com"] },
    "backend-v2": {
      parents: [at("httproute-listener-port-matching", undefined, 8080)],
      expected: ["foo.com", "bar.com"],
    },
    "backend-v3": { parents: [at("httproute-listener-port-matching", "listener-4", 8090)], expected: ["foo.com"] },
  },
  // Isolation decides which listener serves a name, but the Gateway serves it in any case.
  GatewayHTTPListenerIsolation: {
    "attaches-to-empty-hostname": { parents: [isolated("empty-hostname")], expected: [] },
    "attaches-to-wildcard-example-com": { parents: [isolated("wildcard-example-com")], expected: ["*.example.com"] },
    "attaches-to-wildcard-foo-example-com": {
      parents: [isolated("wildcard-foo-example-com")],
      expected: ["*.foo.example.com"],
    },
    "attaches-to-abc-foo-example-com": {
      parents: [isolated("abc-foo-example-com")],
      expected: ["abc.foo.example.com"],
    },
    "attaches-to-empty-hostname-with-hostname-intersection": intersecting("empty-hostname", [
      "bar.com",
      "*.example.com",
      "*.foo.example.com",
      "abc.foo.example.com",
    ]),
    "attaches-to-wildcard-example-com-with-hostname-intersection": intersecting("wildcard-example-com", [
      "bar.com: no-matching-listener",
      "*.example.com",
      "*.foo.example.com",
      "abc.foo.example.com",
    ]),
    "attaches-to-wildcard-foo-example-com-with-hostname-intersection": intersecting("wildcard-foo-example-com", [
      "bar.com: no-matching-listener",
      "*.foo.example.com",
      "abc.foo.example.com",
    ]),
    "attaches-to-abc-foo-example-com-with-hostname-intersection": intersecting("abc-foo-example-com", [
      "bar.com: no-matching-listener",
      "abc.foo.example.com",
    ]),
  },
  HTTPRouteCrossNamespace: {
    "cross-namespace": {
      parents: ["backend-namespaces"],
      namespace: BACKEND,
      hostnames: ["a.com"],
      expected: ["a.com"],
    },
    "into a Gateway for all namespaces": {
      parents: ["all-namespaces"],
      namespace: BACKEND,
      hostnames: ["a.com"],
      expected: ["a.com"],
    },
    "from a namespace that is not selected": {
      parents: ["backend-namespaces"],
      hostnames: ["a.com"],
      expected: ["a.com: not-allowed"],
    },
  },
  HTTPRouteInvalidCrossNamespaceParentRef: {
    "invalid-cross-namespace-parent-ref": {
      parents: ["same-namespace"],
      namespace: BACKEND,
      hostnames: ["a.com"],
      expected: ["a.com: not-allowed"],
    },
  },
  HTTPRouteInvalidParentRefNotMatchingListenerPort: {
    "httproute-listener-not-matching-route-port": {
      parents: [at("same-namespace", undefined, 81)],
      hostnames: ["a.com"],
      expected: ["a.com: no-matching-listener"],
    },
  },
  HTTPRouteInvalidParentRefNotMatchingSectionName: {
    "httproute-listener-not-matching-section-name": {
      parents: [at("same-namespace", "http1", 80)],
      hostnames: ["a.com"],
      expected: ["a.com: no-matching-listener"],
    },
  },
  HTTPRouteInvalidParentRefSectionNameNotMatchingPort: {
    "httproute-listener-section-name-not-matching-port": {
      parents: [at("gateway-with-one-not-matching-port-and-section-name-route", "http", 81)],
      hostnames: ["a.com"],
      expected: ["a.com: no-matching-listener"],
    },
  },
  HTTPRouteDisallowedKind: {
    "disallowed-kind": { parents: ["tlsroutes-only"], hostnames: ["a.com"], expected: ["a.com: not-allowed"] },
  },
  TLSRouteSimpleSameNamespace: {
    "gateway-conformance-infra-test": {
      kind: "TLSRoute",
      parents: ["gateway-tlsroute"],
      hostnames: ["abc.example.com"],
      expected: ["abc.example.com"],
    },
  },
  TLSRouteHostnameIntersection: {
    "tlsroute-exact-hostname": {
      kind: "TLSRoute",
      parents: ["gateway-tlsroute-more-specific-wildcard-hostname-intersection"],
      hostnames: ["abc.example.com"],
      expected: ["abc.example.com"],
    },
    "tlsroute-more-specific-wildcard-hostname": {
      kind: "TLSRoute",
      parents: ["gateway-tlsroute-exact-hostname-intersection"],
      hostnames: ["*.example.com"],
      expected: ["abc.example.com"],
    },
    "tlsroute-less-specific-wildcard-hostname": {
      kind: "TLSRoute",
      parents: ["gateway-tlsroute-empty-hostname-intersection"],
      hostnames: ["*.com"],
      expected: ["*.com"],
    },
  },
};

for (const [suite, examples] of Object.entries(EXAMPLES)) {
  describe(suite, () => {
    for (const [name, { kind = HTTP, parents, hostnames, namespace = INFRA, expected }] of Object.entries(examples)) {
      it(name, () => {
        assert.deepEqual(outcome(kind, routeObject(name, parents, hostnames, { namespace })), expected);
      });
    }
  });
}
