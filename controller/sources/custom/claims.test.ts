import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { IGNORE_KEY } from "#hostmap/metadata-keys.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { MAX_NAMES_PER_OBJECT } from "../claim-list.ts";
import { PRESETS } from "../custom.ts";
import type { Raw } from "../raw-object.ts";
import type { View } from "../types.ts";
import { type ClaimPaths, type CustomReader, customReader, serviceClaims } from "./claims.ts";

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

function configured(parts: object): CustomReader {
  const [source] = parseConfig({
    sources: { custom: [{ group: "example.com", version: "v1", resource: "widgets", ...parts }] },
  }).sources.custom;
  assert.ok(source);
  return customReader(source);
}
const HOSTS = configured({ hostnames: "$.spec.hosts[*]" });
const PATHS: ClaimPaths = {
  hostnames: "$.hosts[*]",
  syntax: "name",
  classes: ["$.first[*]", "$.second"],
  className: "last",
  addresses: "$.addresses[*]",
  admitted: "$.ready[?@ == true]",
};
const WIDGET = customReader(PATHS);
const preset =
  (name: keyof typeof PRESETS): CustomReader =>
  (raw, kind) =>
    PRESETS[name].project(raw, kind)?.views ?? [];
const ROUTE = preset("traefik-ingressroute");
const PROXY = preset("contour-httpproxy");
const OPENSHIFT = preset("openshift-route");

/** The entry that a router writes into the status of a Route that it admitted. */
const entry = (routerName: string, more: object = {}) => ({
  routerName,
  routerCanonicalHostname: `router-${routerName}.apps.com`,
  wildcardPolicy: "None",
  conditions: [{ type: "Admitted", status: "True" }],
  ...more,
});
const traefik = (...rules: string[]) => ({ routes: [...rules.map((match) => ({ match })), {}] });
const proxy = (currentStatus: string, more: object = {}, annotations: Raw = {}) =>
  object({ spec: { virtualhost: { fqdn: "a.com" }, ...more }, status: { currentStatus } }, annotations);
const admitted = (spec: object, ...ingress: unknown[]) => object({ spec, status: { ingress } });
const SERVICE: CustomReader = (raw) => serviceClaims(raw);
const HOSTNAME = "external-dns.alpha.kubernetes.io/hostname";
const NOW = "external-dns.kubernetes.io/hostname";
const balancer = (annotations: Raw, more: object = { spec: { type: "LoadBalancer" } }) =>
  object({ ...more }, annotations);
const ADDRESSES = [{ hostname: "lb.com", ip: "192.0.2.1" }, { ip: "" }, { ip: 5, hostname: "b" }];
const OLD_CLASS = { "kubernetes.io/ingress.class": "inner" };

type Case = readonly [what: string, read: CustomReader, raw: Raw, expected: readonly string[]];
const CASES: readonly Case[] = [
  [
    "Traefik's IngressRoute",
    ROUTE,
    object({ spec: traefik("Host(`a.com`) || Host(`b.com`)", "PathPrefix(`/x`)") }),
    ["a.com traefik - true", "b.com traefik - true"],
  ],
  [
    "one with the class in an annotation",
    ROUTE,
    object({ spec: traefik("Host(`a.com`)") }, OLD_CLASS),
    ["a.com inner - true"],
  ],
  [
    "one with two classes: that of the field",
    ROUTE,
    object({ spec: { ingressClassName: "field", ...traefik("Host(`a.com.`)") } }, OLD_CLASS),
    ["a.com field - true"],
  ],
  [
    "Traefik's IngressRouteTCP",
    preset("traefik-ingressroutetcp"),
    object({ spec: traefik("HostSNI(`a.com`)", "HostSNI(`*`)") }),
    ["a.com traefik - true"],
  ],
  [
    "Contour's HTTPProxy",
    PROXY,
    object({
      spec: { virtualhost: { fqdn: "a.com" }, ingressClassName: "edge" },
      status: { currentStatus: "valid", loadBalancer: { ingress: [{ ip: "192.0.2.1" }, { hostname: "lb.com" }] } },
    }),
    ["a.com edge 192.0.2.1,lb.com true"],
  ],
  ["one that Contour rejects", PROXY, proxy("invalid"), ["a.com: not-admitted"]],
  [
    "one with two classes: that of the annotation",
    PROXY,
    proxy("valid", { ingressClassName: "x" }, OLD_CLASS),
    ["a.com inner - true"],
  ],
  ["an included HTTPProxy without a host", PROXY, object({ spec: { routes: [] } }), []],
  [
    "OpenShift's Route",
    OPENSHIFT,
    admitted({ host: "a.com" }, entry("default", { host: "a.com" })),
    ["a.com default - true"],
  ],
  [
    "one that the second of three routers has admitted",
    OPENSHIFT,
    admitted(
      { host: "a.com" },
      entry("first", { conditions: [{ type: "Admitted", status: "False" }] }),
      entry("second"),
      entry("third", { conditions: null }),
    ),
    ["a.com second - true"],
  ],
  [
    "one for all names of a domain",
    OPENSHIFT,
    admitted({ host: "www.a.com", wildcardPolicy: "Subdomain" }, entry("default", { wildcardPolicy: "Subdomain" })),
    ["*.a.com default - true"],
  ],
  [
    "one with a subdomain, which each router completes",
    OPENSHIFT,
    admitted({ subdomain: "s" }, entry("default", { host: "s.apps.com" }), entry("shard", { host: "s.shard.com" })),
    ["s.apps.com default - true", "s.shard.com shard - true"],
  ],
  ["one that no router has seen", OPENSHIFT, object({ spec: { host: "a.com" } }), ["a.com: not-admitted"]],
  [
    "a custom kind by the first class",
    WIDGET,
    { hosts: ["a.com"], first: ["a", "b"], second: "c" },
    ["a.com a - false"],
  ],
  ["one with odd classes", WIDGET, { hosts: ["a.com"], first: ["", 5], second: "c" }, ["a.com c - false"]],
  ["one without a class", WIDGET, { hosts: ["a.com"], second: "" }, ["a.com last - false"]],
  ["one with addresses", WIDGET, { hosts: ["a.com"], addresses: ["a", "b", "a", 5, ""] }, ["a.com last a,b false"]],
  ["one that is admitted", WIDGET, { hosts: ["a.com"], ready: [false, true] }, ["a.com last - true"]],
  [
    "one with our annotation",
    WIDGET,
    { hosts: ["a.com"], ...object({}, { [IGNORE_KEY]: "true" }) },
    ["a.com: ignored"],
  ],
  ["one by hostnames alone", HOSTS, object({ spec: { hosts: ["a.com"] } }), ["a.com - - true"]],
  [
    "one with values of another syntax",
    WIDGET,
    { hosts: ["a.com", 5, null, "", "*", "b.com"] },
    ["a.com last - false", "unreadable.invalid: path-failed", "b.com last - false"],
  ],
  [
    "one with lists of names",
    configured({ hostnames: "$.spec.names", syntax: "list" }),
    object({ spec: { names: " a.com ,b.com. ,, * ,.,c.com.." } }),
    ["a.com - - true", "b.com - - true", "c.com. - - true"],
  ],
  [
    "one with names as in Istio",
    configured({ hostnames: "$.spec.hosts[*]", syntax: "istio-host" }),
    object({ spec: { hosts: ["ns/a.com", "b.com", "./c.com", "a/b/c", "ns/", "*/*", "*"] } }),
    ["a.com - - true", "b.com - - true", "c.com - - true", "b/c - - true"],
  ],
  [
    "a Service with a load balancer",
    SERVICE,
    balancer(
      { [HOSTNAME]: "a.com" },
      { spec: { type: "LoadBalancer" }, status: { loadBalancer: { ingress: ADDRESSES } } },
    ),
    ["a.com - 192.0.2.1,lb.com,b true"],
  ],
  [
    "one with both annotations of external-dns",
    SERVICE,
    balancer({ [HOSTNAME]: "b.com,c.com", [NOW]: "a.com., b.com", [`x${NOW}`]: "d.com" }),
    ["a.com - - false", "b.com - - false", "c.com - - false"],
  ],
  [
    "one with another prefix",
    (raw) => serviceClaims(raw, ["internal.example.com/"]),
    balancer({ [HOSTNAME]: "a.com", "internal.example.com/hostname": "b.com" }),
    ["b.com - - false"],
  ],
  ["one of another type", SERVICE, balancer({ [HOSTNAME]: "a.com" }, {}), ["a.com: not-short-circuited"]],
  ["one with our annotation", SERVICE, balancer({ [HOSTNAME]: "a.com", [IGNORE_KEY]: "true" }), ["a.com: ignored"]],
  ["one without names", SERVICE, balancer({ [HOSTNAME]: "" }), []],
];
describe("the claims of", () => {
  for (const [what, read, raw, expected] of CASES)
    it(what, () => assert.deepEqual(shown(read(raw, "Widget")), expected));
});

test("a claim has its object, with the API's name of the kind, and the hints of its kind", () => {
  const hints = { className: "traefik", controller: "traefik.io/ingress-controller", addresses: [], admitted: true };
  const from = { kind: "IngressRoute", namespace: "shop", name: "web" };
  assert.deepEqual(ROUTE(object({ spec: traefik("Host(`a.com`)") }), "IngressRoute"), [
    { hostname: "a.com", from, created: CREATED, hints },
  ]);
  const [claim] = serviceClaims(balancer({ [HOSTNAME]: "a.com" }));
  assert.deepEqual(claim?.hints && "service" in claim.hints && claim.hints.service, { namespace: "shop", name: "web" });
});

test("Traefik's rules name hosts, except negated ones; what is no rule has a reason", () => {
  for (const [rule, ...hosts] of [
    ["Host(`a.com`)", "a.com"],
    ["Host(`a.com`,`b.com`)", "a.com", "b.com"],
    ['Host("a.com")', "a.com"],
    ['Host("a\\"b")', 'a"b'],
    ["PathPrefix(`Host(a.com)`)"],
    ["(Host(`a.com`) || (Host(`b.com`) && Method(`GET`)))", "a.com", "b.com"],
    ["HOST(`a.com`) || host(`b.com`) || HostHeader(`c.com`)", "a.com", "b.com", "c.com"],
    ["HostRegexp(`^.+\\.com$`)"],
    ["!Host(`a.com`) && Host(`b.com`)", "b.com"],
    ["!(Host(`a.com`) || Host(`b.com`)) || Host(`c.com`)", "c.com"],
    ["!(!Host(`a.com`))", "a.com"],
    ["(!(Host(`a.com`) || (Host(`b.com`))))"],
    ["!!Host(`a.com`)", "a.com"],
    ["  Host(`a.com`)\n  || Host(`b.com`)  ", "a.com", "b.com"],
    [`${"(".repeat(20_000)}Host(\`a.com\`)${")".repeat(20_000)}`, "a.com"],
    [""],
    ...["Host(`a.com`", "Host(`a.com`))", "(Host(`a.com`)", "Host`a.com`", "Host(a.com)", "Host(`a.com)", "a.com"].map(
      (broken) => [broken, "unreadable.invalid"],
    ),
    ["Host(`a.com`) ||| Host(`b.com`)", "unreadable.invalid"],
    [`Host(\`${"a".repeat(1_000_000)}\`)`, "unreadable.invalid"],
    [`"${"\\".repeat(60_000)}`, "unreadable.invalid"],
  ] as const) {
    const claims = ROUTE(object({ spec: { routes: [{ match: rule }] } }), "IngressRoute");
    assert.deepEqual(
      claims.map(({ hostname }) => hostname),
      hosts,
      rule?.slice(0, 80),
    );
  }
});

describe("untrusted values", () => {
  const judge = createClaimPolicy(parseConfig({}).policy, undefined);
  /** The policy's decision about each claim, with a target that accepts the claim. */
  const decisions = (hosts: unknown) =>
    HOSTS(object({ spec: { hosts } }), "Widget").map(({ hints, ...rest }) => {
      return judge({ ...rest, target: "code" in hints ? hints : "target" }).refused?.code;
    });

  for (const [what, value, expected] of [
    ["a map", { toString: "a.com" }, "path-failed"],
    ["a list", ["a.com"], "path-failed"],
    ["a line break", "a.com\n192.0.2.1 b.com", "name-invalid"],
    ["a zero byte", "a.com\u0000", "name-invalid"],
    ["an escape sequence", "\u001b[2Ja.com", "name-invalid"],
    ["a right-to-left mark", "a\u202e.com", "name-invalid"],
    ["half a surrogate pair", "\ud800.com", "name-invalid"],
    ["a comment", "a.com#", "name-invalid"],
    ["a megabyte", "x".repeat(1_000_000), "name-invalid"],
    ["the API server", "kubernetes.default.svc", "name-protected"],
  ] as const) {
    it(`${what}: ${expected}`, () => assert.deepEqual(decisions([value]), [expected]));
  }

  it("a reason shows at most one line of a value, sanitized for a terminal", () => {
    const [claim] = HOSTS(object({ spec: { hosts: [{ x: "\u001b\u009b".repeat(100) }] } }), "Widget");
    assert.ok(claim !== undefined && "code" in claim.hints);
    assert.match(claim.hints.text, /^\$\.spec\.hosts\[\*\] selects [\u0020-\u007e]{1,600}$/);
  });

  it("many names and addresses are limited, as separate values and in one text", () => {
    const many = Array.from({ length: 100_000 }, (_, index) => `n${index}.com`);
    assert.equal(decisions(many).length, MAX_NAMES_PER_OBJECT + 1);
    const list = configured({ hostnames: "$.spec.hosts", syntax: "list" });
    assert.equal(list(object({ spec: { hosts: many.join() } }), "Widget").length, MAX_NAMES_PER_OBJECT + 1);
    const [claim] = WIDGET({ hosts: ["a.com"], addresses: many }, "Widget");
    assert.equal(claim?.hints && "addresses" in claim.hints && claim.hints.addresses.length, 16);
  });

  it("an object that is nested too deeply for its path is rejected without an exception", () => {
    let deep: Raw = {};
    for (let level = 0; level < 5_000; level++) deep = { a: deep };
    const read = configured({ hostnames: "$..host" });
    assert.deepEqual(shown(read(object({ spec: deep }), "Widget")), ["unreadable.invalid: path-failed"]);
  });
});
