import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { codesOf, nginx, services } from "#test/fakes/doctor-changes.ts";
import { BALANCER_IP, FORBIDDEN, HEALTHY, NAME, NGINX } from "#test/fakes/doctor-facts.ts";
import { examine } from "../checks.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";
import type { ProbeLookup } from "../probe/result.ts";

const found = (...lookups: ProbeLookup[]) => ({ probe: known({ dials: [], lookups }) });
const at = (name: string, ...addresses: string[]): ProbeLookup => ({ name, addresses });
const nowhere = (name: string, failure: string): ProbeLookup => ({ name, addresses: [], failure });
const silent = (lookup: ProbeLookup): ProbeLookup => ({ ...lookup, outcome: { kind: "timeout", detail: "none" } });
const NAMES = ["a", "b", "c", "d", "e", "f"].map((letter) => `${letter}.example.com`);
const served = (...names: string[]) => {
  const service = `${NGINX.namespace}/${NGINX.name}`;
  return { names: known({ names: names.map((name) => ({ name, service })), unread: [] }) };
};
const [A = "", B = "", C = ""] = NAMES;

/** A change to the facts of a healthy installation, and the codes of the check after it. */
const CASES: readonly [what: string, change: Partial<ClusterFacts>, ...codes: string[]][] = [
  ["its load balancer", {}, "ok names-lead-to-it"],
  ["no probe", { probe: undefined }],
  ["a probe that failed", { probe: FORBIDDEN }],
  ["none was looked up", found()],
  ["the load balancer has no address", { ...nginx({ entries: [] }), ...found(nowhere(NAME, "ENOTFOUND")) }],
  [
    "another address, beside that of the load balancer",
    found(at(NAME, "192.0.2.9", BALANCER_IP)),
    "ok names-lead-to-it",
  ],
  [
    "the addresses of the load balancer's hostname",
    {
      ...nginx({ entries: [{ hostname: "lb.example.com" }] }),
      ...found(at(NAME, "192.0.2.7"), at("lb.example.com", "192.0.2.6", "192.0.2.7")),
    },
    "ok names-lead-to-it",
  ],
  [
    "other addresses than the load balancer's hostname",
    {
      ...nginx({ entries: [{ hostname: "lb.example.com" }] }),
      ...found(at(NAME, "192.0.2.8", "192.0.2.9"), at("lb.example.com", "192.0.2.6")),
    },
    "warning name-elsewhere",
  ],
  [
    "another address where pods get no answer: a router without hairpin NAT",
    found(silent(at(NAME, "192.0.2.99"))),
    "warning name-unreachable",
  ],
  [
    "the same, and an address that answers: mapped in any case, so its records are right",
    {
      ...served(A, B),
      ...nginx({ annotations: { "switchback.dev/map": "always" } }),
      ...found(silent(at(A, "192.0.2.99")), at(B, "192.0.2.99")),
    },
  ],
  [
    "the addresses of other Services of the cluster: an Ingress' owner has nothing to correct",
    {
      ...served(A, B, C),
      ...services(
        NGINX,
        { ...NGINX, namespace: "edge", name: "other", clusterIPs: ["2001:DB8::7"], entries: [{ ip: "192.0.2.7" }] },
        { ...NGINX, namespace: "edge", name: "nlb", clusterIPs: [], entries: [{ hostname: "nlb.example.com" }] },
      ),
      ...found(
        at(A, "192.0.2.7"),
        silent(at(B, "2001:db8::7")),
        at(C, "192.0.2.6"),
        at("nlb.example.com", "192.0.2.6"),
      ),
    },
  ],
  [
    "another address that answers",
    found({ ...at(NAME, "192.0.2.99"), outcome: { kind: "answered", detail: "a TLS handshake" } }),
    "warning name-elsewhere",
  ],
  [
    "each of these",
    { ...served(A, B, C), ...found(at(A, BALANCER_IP), at(B, "192.0.2.99"), nowhere(C, "ETIMEOUT")) },
    "warning name-unresolved",
    "warning name-elsewhere",
    "ok names-lead-to-it",
  ],
];

describe("the names check says what names resolve to:", () => {
  for (const [what, change, ...codes] of CASES) test(what, () => assert.deepEqual(codesOf("names", change), codes));

  test("of many names, five are listed, and names that were not probed are counted", () => {
    const evidence = (...lookups: ProbeLookup[]) =>
      examine({ ...HEALTHY, ...served(...NAMES), ...found(...lookups) }).find(({ check }) => check === "names")
        ?.evidence;
    assert.match(evidence(...NAMES.map((name) => nowhere(name, "ENOTFOUND"))) ?? "", /e\.example\.com \S+ and 1 more$/);
    assert.match(evidence(at(A, BALANCER_IP)) ?? "", /5 more were not probed/);
  });
});
