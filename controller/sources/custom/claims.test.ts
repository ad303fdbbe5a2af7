import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { fc } from "#test/property.ts";
import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import type { Raw } from "../raw-object.ts";
import type { View } from "../types.ts";
import { type ClaimingKind, customKind, PRESETS } from "./presets.ts";
import { serviceClaims } from "./service-claims.ts";

const CREATED = "2026-01-01T00:00:00Z";
const object = (parts: Raw, annotations: Raw = {}): Raw => ({
  metadata: { namespace: "shop", name: "web", creationTimestamp: CREATED, annotations },
  ...parts,
});
/** Each claim as `name class addresses admitted`, or as `name: code`. */
const shown = (claims: readonly View[]) =>
  claims.map(({ hostname, hints }) =>
    "code" in hints
      ? `${hostname}: ${hints.code}`
      : [hostname, hints.className ?? "-", hints.addresses.join() || "-", hints.admitted].join(" "),
  );
const read = (kind: ClaimingKind, raw: Raw) => shown(kind.read(raw, "Widget"));

function configured(parts: object): ClaimingKind {
  const [source] = parseConfig({
    sources: { custom: [{ group: "example.com", version: "v1", resource: "widgets", ...parts }] },
  }).sources.custom;
  assert.ok(source);
  return customKind(source);
}
const HOSTS = configured({ hostnames: "$.spec.hosts[*]" });

/** The entry that a router writes into the status of a Route that it admitted. */
const routerEntry = (routerName: string, more: object = {}) => ({
  routerName,
  routerCanonicalHostname: `router-${routerName}.apps.com`,
  wildcardPolicy: "None",
  conditions: [{ type: "Admitted", status: "True" }],
  ...more,
});

describe("presets", () => {
  const CASES: ReadonlyArray<readonly [what: string, kind: ClaimingKind, raw: Raw, expected: readonly string[]]> = [
    [
      "Traefik's IngressRoute",
      PRESETS["traefik-ingressroute"],
      object({ spec: { routes: [{ match: "Host(`a.com`) || Host(`b.com`)" }, { match: "PathPrefix(`/x`)" }, {}] } }),
      ["a.com traefik - true", "b.com traefik - true"],
    ],
    [
      "with a class in the old annotation",
      PRESETS["traefik-ingressroute"],
      object({ spec: { routes: [{ match: "Host(`a.com`)" }] } }, { "kubernetes.io/ingress.class": "inner" }),
      ["a.com inner - true"],
    ],
    [
      "with a class in the field, which wins",
      PRESETS["traefik-ingressroute"],
      object(
        { spec: { ingressClassName: "field", routes: [{ match: "Host(`a.com.`)" }] } },
        { "kubernetes.io/ingress.class": "annotation" },
      ),
      ["a.com field - true"],
    ],
    [
      "Traefik's IngressRouteTCP",
      PRESETS["traefik-ingressroutetcp"],
      object({ spec: { routes: [{ match: "HostSNI(`a.com`)" }, { match: "HostSNI(`*`)" }] } }),
      ["a.com traefik - true"],
    ],
    [
      "Contour's HTTPProxy",
      PRESETS["contour-httpproxy"],
      object({
        spec: { virtualhost: { fqdn: "a.com" }, ingressClassName: "edge" },
        status: { currentStatus: "valid", loadBalancer: { ingress: [{ ip: "192.0.2.1" }, { hostname: "lb.com" }] } },
      }),
      ["a.com edge 192.0.2.1,lb.com true"],
    ],
    [
      "one that Contour rejects, with the class in an annotation",
      PRESETS["contour-httpproxy"],
      object(
        { spec: { virtualhost: { fqdn: "a.com" } }, status: { currentStatus: "invalid" } },
        { "projectcontour.io/ingress.class": "inner" },
      ),
      ["a.com: not-admitted"],
    ],
    [
      "one with two classes: that of the annotation",
      PRESETS["contour-httpproxy"],
      object(
        { spec: { virtualhost: { fqdn: "a.com" }, ingressClassName: "field" }, status: { currentStatus: "valid" } },
        { "kubernetes.io/ingress.class": "annotation" },
      ),
      ["a.com annotation - true"],
    ],
    ["an included HTTPProxy without a host", PRESETS["contour-httpproxy"], object({ spec: { routes: [] } }), []],
    [
      "OpenShift's Route",
      PRESETS["openshift-route"],
      object({ spec: { host: "a.com" }, status: { ingress: [routerEntry("default", { host: "a.com" })] } }),
      ["a.com default - true"],
    ],
    [
      "one that the second of three routers has admitted",
      PRESETS["openshift-route"],
      object({
        spec: { host: "a.com" },
        status: {
          ingress: [
            routerEntry("first", { conditions: [{ type: "Admitted", status: "False" }] }),
            routerEntry("second"),
            routerEntry("third", { conditions: null }),
          ],
        },
      }),
      ["a.com second - true"],
    ],
    [
      "one for all names of a domain",
      PRESETS["openshift-route"],
      object({
        spec: { host: "www.a.com", wildcardPolicy: "Subdomain" },
        status: { ingress: [routerEntry("default", { host: "www.a.com", wildcardPolicy: "Subdomain" })] },
      }),
      ["*.a.com default - true"],
    ],
    [
      "one with a subdomain, which each router completes",
      PRESETS["openshift-route"],
      object({
        spec: { subdomain: "sub" },
        status: {
          ingress: [routerEntry("default", { host: "sub.apps.com" }), routerEntry("shard", { host: "sub.shard.com" })],
        },
      }),
      ["sub.apps.com default - true", "sub.shard.com shard - true"],
    ],
    [
      "one that lists a router many times",
      PRESETS["openshift-route"],
      object({ spec: { host: "a.com" }, status: { ingress: Array(3).fill(routerEntry("default")) } }),
      ["a.com default - true"],
    ],
    [
      "a Route that no router has seen",
      PRESETS["openshift-route"],
      object({ spec: { host: "a.com" } }),
      ["a.com: not-admitted"],
    ],
    [
      "a Route that is ignored",
      PRESETS["openshift-route"],
      object({ spec: { host: "a.com" }, status: { ingress: [routerEntry("default")] } }, { [IGNORE_KEY]: "true" }),
      ["a.com: ignored"],
    ],
    [
      "a Route whose parts have other types",
      PRESETS["openshift-route"],
      object({ spec: { host: 5 }, status: { ingress: [null, routerEntry("default", { host: ["a.com"] })] } }),
      [],
    ],
  ];
  for (const [what, kind, raw, expected] of CASES) it(what, () => assert.deepEqual(read(kind, raw), expected));

  it("include the object, with the API's name of the kind", () => {
    const raw = object({ spec: { routes: [{ match: "Host(`a.com`)" }] } });
    const [claim] = PRESETS["traefik-ingressroute"].read(raw, "IngressRoute");
    assert.deepEqual(claim, {
      hostname: "a.com",
      from: { kind: "IngressRoute", namespace: "shop", name: "web" },
      created: CREATED,
      hints: { className: "traefik", controller: "traefik.io/ingress-controller", addresses: [], admitted: true },
    });
  });
});

describe("untrusted values", () => {
  const judge = createClaimPolicy(parseConfig({}).policy, undefined);
  /** The policy's decision about each claim, with a target that accepts the claim. */
  const decisions = (hosts: unknown) =>
    HOSTS.read(object({ spec: { hosts } }), "Widget").map((claim) => {
      const { hints, ...rest } = claim;
      return judge({ ...rest, target: "code" in hints ? hints : "target" }).refused?.code;
    });

  for (const [what, value, expected] of [
    ["a number", 5, "path-failed"],
    ["a map", { toString: "a.com" }, "path-failed"],
    ["a list", ["a.com"], "path-failed"],
    ["true", true, "path-failed"],
    ["a line break", "a.com\n192.0.2.1 b.com", "name-invalid"],
    ["a zero byte", "a.com\u0000", "name-invalid"],
    ["an escape sequence", "\u001b[2Ja.com", "name-invalid"],
    ["a right-to-left mark", "a\u202e.com", "name-invalid"],
    ["half a surrogate pair", "\ud800.com", "name-invalid"],
    ["a tab", "a.com\tb.com", "name-invalid"],
    ["a comment", "a.com#", "name-invalid"],
    ["a megabyte", "x".repeat(1_000_000), "name-invalid"],
    ["an address", "192.0.2.1", "name-invalid"],
    ["the API server", "kubernetes.default.svc", "name-protected"],
    ["an ACME server", "acme-v02.api.letsencrypt.org", "name-protected"],
  ] as const) {
    it(`${what}: ${expected}`, () => assert.deepEqual(decisions([value]), [expected]));
  }

  it("an empty value or a star claims no name", () => {
    assert.deepEqual(decisions([null, "", "*"]), []);
    assert.deepEqual(decisions("a.com"), []);
    assert.deepEqual(decisions(undefined), []);
  });

  it("a reason shows at most one line of a value, sanitized for a terminal", () => {
    const [claim] = HOSTS.read(object({ spec: { hosts: [{ x: "\u001b\u009b".repeat(100) }] } }), "Widget");
    assert.ok(claim !== undefined && "code" in claim.hints);
    assert.match(claim.hints.text, /^\$\.spec\.hosts\[\*\] selects [\u0020-\u007e]{1,600}$/);
  });

  it("a million names are limited, as separate values and in one text", () => {
    const many = Array.from({ length: 100_000 }, (_, index) => `n${index}.com`);
    assert.equal(decisions(many).length, MAX_NAMES_PER_OBJECT + 1);
    const kind = configured({ hostnames: "$.spec.hosts", syntax: "list" });
    assert.equal(read(kind, object({ spec: { hosts: many.join() } })).length, MAX_NAMES_PER_OBJECT + 1);
  });

  it("an object that is nested too deeply for its path is rejected without an exception", () => {
    let deep: Raw = {};
    for (let level = 0; level < 5_000; level++) deep = { a: deep };
    assert.deepEqual(read(configured({ hostnames: "$..host" }), object({ spec: deep })), [
      "unreadable.invalid: path-failed",
    ]);
  });

  it("property: the claims of any object are strings", () => {
    const part = fc.anything({ maxDepth: 4, values: [fc.string(), fc.integer(), fc.constant(null), fc.boolean()] });
    const readers = [...Object.values(PRESETS), HOSTS].map(({ read }) => read);
    const raw = fc.record({ metadata: part, spec: part, status: part }, { requiredKeys: [] });
    fc.assert(
      fc.property(raw, (parts) => {
        // Plain JSON, as received from the API server.
        const plain = JSON.parse(JSON.stringify(parts)) as Raw;
        for (const claim of [...readers.flatMap((reader) => reader(plain, "Widget")), ...serviceClaims(plain)]) {
          assert.equal(typeof claim.hostname, "string");
        }
      }),
      { numRuns: 500 },
    );
  });
});
