import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { install, nginx, rowsOf, services } from "#test/fakes/doctor-changes.ts";
import { BALANCER_IP, FORBIDDEN, FRONT, FRONT_IP, HEALTHY, NAME, NGINX } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";
import type { ProbeLookup } from "../probe/result.ts";

const found = (...lookups: ProbeLookup[]) => ({ probe: known({ dials: [], lookups }) });
const at = (name: string, ...addresses: string[]): ProbeLookup => ({ name, addresses });
const nowhere = (name: string, failure: string): ProbeLookup => ({ name, addresses: [], failure });
const dumped = (lookups: Readonly<Record<string, readonly string[]>>) => new Map(Object.entries(lookups));
const NAMES = ["a", "b", "c", "d", "e", "f"].map((letter) => `${letter}.example.com`);
const served = (...hosts: string[]) => {
  const route = {
    kind: "Ingress",
    namespace: "shop",
    name: "shop",
    addresses: ["lb.example.com", BALANCER_IP],
    className: undefined,
  } as const;
  return { ingresses: known([{ ...route, hosts }]), ...install({ map: known(undefined) }) };
};

/** A change to the facts of a healthy installation, and all findings of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, findings: string[]][] = [
  [
    "its load balancer",
    {},
    ["ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) resolve to it"],
  ],
  ["no probe", { probe: undefined }, []],
  [
    "no probe, and look-ups of a dump",
    {
      ...served(...NAMES),
      probe: undefined,
      lookups: dumped({ "lb.example.com": [], "a.example.com": [BALANCER_IP], "b.example.com": ["192.0.2.9"] }),
    },
    [
      "warning name-elsewhere | names at Service ingress-nginx/ingress-nginx-controller | not resolving to " +
        `${BALANCER_IP}: b.example.com (192.0.2.9) | correct the DNS records; if they should resolve ` +
        "elsewhere (a CDN), " +
        'exclude the Ingress with the annotation `switchback.dev/ignore: "true"`',
      "ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) " +
        "resolve to it (4 more were not probed)",
    ],
  ],
  ["a probe that failed", { probe: FORBIDDEN }, []],
  ["none was looked up", found(), []],
  ["the load balancer has no address", { ...nginx({ entries: [] }), ...found(nowhere(NAME, "ENOTFOUND")) }, []],
  [
    "some were not looked up",
    { ...served(...NAMES), ...found(at("a.example.com", BALANCER_IP)) },
    [
      "ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) " +
        "resolve to it (5 more were not probed)",
    ],
  ],
  [
    "another address, beside that of the load balancer",
    found(at(NAME, "192.0.2.99", BALANCER_IP)),
    ["ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) resolve to it"],
  ],
  [
    "the addresses of the load balancer's hostname",
    {
      ...nginx({ entries: [{ hostname: "lb.example.com" }] }),
      ...found(at(NAME, "192.0.2.7"), at("lb.example.com", "192.0.2.6", "192.0.2.7")),
    },
    ["ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) resolve to it"],
  ],
  [
    "other addresses than the load balancer's hostname",
    {
      ...nginx({ entries: [{ hostname: "lb.example.com" }] }),
      ...found(at(NAME, "192.0.2.8", "192.0.2.9"), at("lb.example.com", "192.0.2.6")),
    },
    [
      "warning name-elsewhere | names at Service ingress-nginx/ingress-nginx-controller | not resolving to " +
        "lb.example.com: shop.example.com (192.0.2.8 192.0.2.9) | correct the DNS records; " +
        "if they should resolve elsewhere (a CDN), exclude the Ingress with the annotation " +
        '`switchback.dev/ignore: "true"`',
    ],
  ],
  [
    "five names without an address are listed",
    { ...served(...NAMES.slice(1)), ...found(...NAMES.slice(1).map((name) => nowhere(name, "ENOTFOUND"))) },
    [
      "warning name-unresolved | names at Service ingress-nginx/ingress-nginx-controller | the cluster's DNS " +
        "has no address: b.example.com (ENOTFOUND), c.example.com (ENOTFOUND), d.example.com (ENOTFOUND), " +
        "e.example.com (ENOTFOUND), f.example.com (ENOTFOUND) | create the DNS records; " +
        "pods that did not opt in depend on them",
    ],
  ],
  [
    "of six names without an address, five are listed",
    { ...served(...NAMES), ...found(...NAMES.map((name) => nowhere(name, "ENOTFOUND"))) },
    [
      "warning name-unresolved | names at Service ingress-nginx/ingress-nginx-controller | the cluster's DNS " +
        "has no address: a.example.com (ENOTFOUND), b.example.com (ENOTFOUND), c.example.com (ENOTFOUND), " +
        "d.example.com (ENOTFOUND), e.example.com (ENOTFOUND) and 1 more | create the DNS records; " +
        "pods that did not opt in depend on them",
    ],
  ],
  [
    "another address where pods get no answer: a router without hairpin NAT",
    found({ ...at(NAME, "192.0.2.99"), outcome: { kind: "timeout", detail: "no connection" } }),
    [
      "warning name-unreachable | names at Service ingress-nginx/ingress-nginx-controller | not resolving to " +
        "192.0.2.80, and pods get no answer at their addresses: shop.example.com (192.0.2.99) | " +
        "if that address is your router's, and it does not forward connections from inside, run " +
        "`kubectl -n ingress-nginx annotate service ingress-nginx-controller switchback.dev/map=always`",
    ],
  ],
  [
    "the same, and an address that answers: mapped in any case, so its records are right",
    {
      ...served(...NAMES.slice(0, 2)),
      ...nginx({ annotations: { "switchback.dev/map": "always" } }),
      ...found(
        { ...at("a.example.com", "192.0.2.99"), outcome: { kind: "timeout", detail: "no connection" } },
        at("b.example.com", "192.0.2.99"),
      ),
    },
    [],
  ],
  [
    "the addresses of other Services of the cluster: an Ingress' owner has nothing to correct",
    {
      ...served(...NAMES.slice(0, 3)),
      ...services(
        NGINX,
        FRONT,
        { ...NGINX, namespace: "edge", name: "other", clusterIPs: ["2001:DB8::7"], entries: [{ ip: "192.0.2.7" }] },
        { ...NGINX, namespace: "edge", name: "nlb", clusterIPs: [], entries: [{ hostname: "nlb.example.com" }] },
      ),
      ...found(
        at("a.example.com", "192.0.2.7"),
        { ...at("b.example.com", FRONT_IP), outcome: { kind: "closed", detail: "reset" } },
        at("c.example.com", "192.0.2.6"),
        at("nlb.example.com", "192.0.2.6"),
      ),
    },
    [
      "ok name-at-another-service | names at Service ingress-nginx/ingress-nginx-controller | the cluster's " +
        "DNS leads a.example.com to Service edge/other, " +
        "b.example.com to Service switchback-system/switchback-ingress-nginx, c.example.com to Service edge/nlb",
    ],
  ],
  [
    "another address that answers",
    found({ ...at(NAME, "192.0.2.99"), outcome: { kind: "answered", detail: "a TLS handshake" } }),
    [
      "warning name-elsewhere | names at Service ingress-nginx/ingress-nginx-controller | not resolving to " +
        "192.0.2.80: shop.example.com (192.0.2.99) | correct the DNS records; " +
        "if they should resolve elsewhere (a CDN), exclude the Ingress with the annotation " +
        '`switchback.dev/ignore: "true"`',
    ],
  ],
  [
    "each of these",
    {
      ...served(...NAMES.slice(0, 3)),
      ...found(
        at("a.example.com", BALANCER_IP),
        at("b.example.com", "192.0.2.99"),
        nowhere("c.example.com", "ETIMEOUT"),
      ),
    },
    [
      "warning name-unresolved | names at Service ingress-nginx/ingress-nginx-controller | the cluster's DNS " +
        "has no address: c.example.com (ETIMEOUT) | create the DNS records; " +
        "pods that did not opt in depend on them",
      "warning name-elsewhere | names at Service ingress-nginx/ingress-nginx-controller | not resolving to " +
        "192.0.2.80: b.example.com (192.0.2.99) | correct the DNS records; " +
        "if they should resolve elsewhere (a CDN), exclude the Ingress with the annotation " +
        '`switchback.dev/ignore: "true"`',
      "ok names-lead-to-it | names at Service ingress-nginx/ingress-nginx-controller | 1 name(s) resolve to it",
    ],
  ],
];

describe("the names check says what names resolve to:", () => {
  for (const [what, change, findings] of CASES) {
    test(what, () => assert.deepEqual(rowsOf("names", { ...HEALTHY, ...change }), findings));
  }
});
