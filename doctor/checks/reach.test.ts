import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ANSWERED,
  codesOf,
  direct,
  install,
  MISREAD,
  nginx,
  probe,
  REFUSED,
  relayed,
  TIMEOUT,
  unmapped,
} from "#test/fakes/doctor-changes.ts";
import { CLOSED, FORBIDDEN, HEALTHY, NGINX, NOT_INSTALLED, RELAYED, type Ways } from "#test/fakes/doctor-facts.ts";
import { examine } from "../checks.ts";
import { known } from "../fact.ts";
import type { ClusterFacts } from "../facts.ts";

const SILENT = { kind: "silent", detail: "no answer within 3 s" } as const;
const PROXIED = { entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] };
const LISTED = { annotations: {}, sourceRanges: ["203.0.113.0/24"] };

const reach = (change: Partial<ClusterFacts>) => [...new Set(codesOf("reach", change))];
const firstOf = (change: Partial<ClusterFacts>) =>
  examine({ ...NOT_INSTALLED, ...change }).find(({ check }) => check === "reach");
const absent = (change: Partial<ClusterFacts>) => `${firstOf(change)?.status} ${firstOf(change)?.code}`;

describe("without a probe, it is said of a load balancer", () => {
  const unseen = { probe: undefined };
  for (const [what, change, code] of [
    ["that its provider has not given it an address", nginx({ entries: [] }), "unknown need-pending"],
    ["that pods bypass it", {}, "unknown need-unseen"],
    [
      "that pods bypass an external address",
      nginx({ entries: [{ ip: "192.0.2.80", external: true }] }),
      "unknown need-unseen",
    ],
    ["that pods do not bypass an address with ipMode Proxy", nginx(PROXIED), "ok not-short-circuited"],
    [
      "that pods do not bypass a hostname",
      nginx({ entries: [{ hostname: "lb.example.com" }] }),
      "ok not-short-circuited",
    ],
    ["that pods do not bypass another family", nginx({ entries: [{ ip: "2001:db8::9" }] }), "ok not-short-circuited"],
    ["that pods bypass it, as far as is known, after a probe that failed", { probe: FORBIDDEN }, "unknown need-unseen"],
  ] as const) {
    test(what, () => assert.equal(absent({ ...unseen, ...change }), code));
  }

  for (const [what, change, evidence] of [
    ["has ipMode VIP", { entries: [{ ip: "192.0.2.80", ipMode: "VIP" }] }, /^pods bypass .* \(ipMode VIP\)\. /],
    ["has no ipMode", { entries: [{ ip: "192.0.2.80" }] }, /^pods bypass .* \(status without ipMode Proxy\)\. /],
    [
      "adds PROXY headers, by an annotation",
      { annotations: { "load-balancer.hetzner.cloud/uses-proxyprotocol": "true" } },
      /^its load balancer adds PROXY headers \(load-balancer\.hetzner\.cloud\/uses-proxyprotocol is "true"\), and pods/,
    ],
    [
      "adds no PROXY headers, by an annotation",
      { annotations: { "load-balancer.hetzner.cloud/uses-proxyprotocol": "false" } },
      /^pods bypass /,
    ],
  ] as const) {
    test(`it ${what}`, () => assert.match(firstOf({ ...unseen, ...nginx(change) })?.evidence ?? "", evidence));
  }

  test("a target covers it, relayed or not", () => {
    assert.deepEqual(reach(unseen), ["ok short-circuit-cured"]);
    assert.deepEqual(reach({ ...direct(), ...unseen }), ["ok short-circuit-cured"]);
    assert.deepEqual(reach({ ...relayed({ unusedSince: "2026-01-01T00:00:00Z" }), ...unseen }), [
      "unknown need-unseen",
    ]);
  });

  test("the proxies' questions are evidence too: pods reach what answers without a header", () => {
    const ask = (...answers: ("optional" | "refuses-header" | "demands-v1" | undefined)[]) =>
      install({
        targets: known([
          {
            ...RELAYED,
            ports: [],
            clusterIPs: [],
            ask: answers.map((answer) => ({ port: 443, upstreamPort: 443, speaks: "tls", name: "a", answer })),
          },
        ]),
      });
    assert.deepEqual(reach({ ...ask("optional", "refuses-header"), ...unseen }), ["ok pods-reach-it"]);
    assert.deepEqual(reach({ ...ask("optional", "demands-v1"), ...unseen }), ["unknown need-unseen"]);
    assert.deepEqual(reach({ ...ask(undefined), ...unseen }), ["unknown need-unseen"]);
  });
});

/** What the probe saw at a load balancer that no target covers. */
const SEEN: readonly [what: string, ways: Ways, code: string, change?: Partial<ClusterFacts>][] = [
  ["its address answers", { balancer: ANSWERED }, "ok pods-reach-it"],
  ["it demands a header", {}, "broken pods-cut-off"],
  ["it demands a header, and the network ignores ipMode", {}, "broken ip-mode-ignored", nginx(PROXIED)],
  ["packets are dropped, and it has source ranges", { balancer: TIMEOUT }, "broken source-ranges", nginx(LISTED)],
  ["packets are dropped, and it admits all", { balancer: TIMEOUT }, "broken pods-cut-off"],
  [
    "it answers without a header, but not at its address",
    { none: ANSWERED, v1: MISREAD, v2: MISREAD },
    "broken no-way-to-balancer",
  ],
  [
    "it demands a header from listed addresses alone",
    { none: ANSWERED, v1: MISREAD, v2: MISREAD, balancerV1: ANSWERED },
    "broken header-by-address",
  ],
  ["nothing listens", { none: REFUSED, v1: REFUSED, v2: REFUSED, balancer: REFUSED }, "broken backend-unreachable"],
  ["it does not answer in time", { none: SILENT, v1: SILENT, v2: SILENT, balancer: SILENT }, "unknown stance-unclear"],
];

describe("with a probe, the cause is named:", () => {
  for (const [what, ways, code, change = {}] of SEEN) {
    test(what, () => assert.equal(absent({ ...change, ...probe(ways) }), code));
  }

  test("a broken port counts, though another one works", () => {
    const { probe: seen } = probe({});
    assert.ok(seen?.known);
    const dials = seen.value.dials.map((dial) =>
      dial.servicePort === 443 && dial.via === "balancer" ? { ...dial, outcome: ANSWERED } : dial,
    );
    const found = firstOf({ probe: known({ dials, lookups: [] }) });
    assert.equal(found?.code, "pods-cut-off");
    assert.match(found?.evidence ?? "", /^from a pod, port 80: /);
  });
});

/** What the probe saw at a load balancer that a target covers. */
const MAPPED: readonly [what: string, change: Partial<ClusterFacts>, code: string][] = [
  ["the front answers", {}, "ok relay-answers"],
  [
    "the front answers, though nothing else does",
    probe({ none: REFUSED, v1: REFUSED, v2: REFUSED }),
    "ok relay-answers",
  ],
  ["a header is refused", probe({ none: ANSWERED, v1: MISREAD, v2: MISREAD, front: MISREAD }), "broken relay-refused"],
  [
    "a header is refused from all but listed addresses",
    probe({ none: ANSWERED, v1: MISREAD, v2: MISREAD, balancerV1: ANSWERED, front: MISREAD }),
    "broken header-by-address",
  ],
  ["another version is taken", probe({ v1: CLOSED, front: CLOSED }), "broken relay-refused"],
  ["nothing is answered", probe({ v1: CLOSED, v2: CLOSED, front: CLOSED }), "broken relay-refused"],
  [
    "nothing listens behind the proxies",
    probe({ none: REFUSED, v1: REFUSED, v2: REFUSED, front: CLOSED }),
    "broken backend-unreachable",
  ],
  ["the proxies are not trusted", probe({ front: CLOSED }), "broken relay-refused"],
  ["no proxy is behind the front", probe({ front: REFUSED }), "broken relay-unreachable"],
  ["the front takes no connection", probe({ front: TIMEOUT }), "broken relay-unreachable"],
  ["all is slow", probe({ v1: SILENT, v2: SILENT, front: SILENT }), "unknown stance-unclear"],
  ["a header is demanded, and none is sent", direct(), "broken pods-cut-off"],
  ["no header is sent or demanded", { ...direct(), ...probe({ none: ANSWERED }) }, "ok pods-reach-it"],
  [
    "nothing is answered without a header",
    { ...direct(), ...probe({ v1: CLOSED, v2: CLOSED }) },
    "unknown stance-unclear",
  ],
];

describe("with a probe, of a load balancer that a target covers:", () => {
  for (const [what, change, code] of MAPPED) test(what, () => assert.deepEqual(reach(change), [code]));

  test("a relay that is refused names the cure: trust the proxies, or send what is taken", () => {
    const curesOf = (ways: Ways) =>
      examine({ ...HEALTHY, ...probe(ways) }).find(({ code }) => code === "relay-refused")?.cures ?? [];
    assert.match(curesOf({ front: CLOSED })[0] ?? "", /trust PROXY headers from the proxy pods' addresses/);
    assert.match(curesOf({ v1: CLOSED, front: CLOSED }).join(), /^set `protocol: v2`/);
    assert.match(
      curesOf({ none: ANSWERED, v1: MISREAD, v2: MISREAD, front: MISREAD }).at(-1) ?? "",
      /^or, if its load balancer adds no header, set `protocol: none`/,
    );
  });
});

describe("the cures", () => {
  const cures = (change: Partial<ClusterFacts>) => firstOf({ ...probe({}), ...change })?.cures ?? [];
  const HETZNER = nginx({ annotations: { "load-balancer.hetzner.cloud/location": "nbg1" } });

  test("begin with cert-manager's own setting, then the provider's; Switchback comes last", () => {
    const all = cures({ ...HETZNER, selfChecks: known(true) });
    assert.deepEqual(
      all.map((cure) => cure.split(/[: ]/, 1)[0]),
      ["if", "Hetzner", "Switchback"],
    );
    assert.match(all[0] ?? "", /\nsolvers:\n {2}- http01: .*\n {4}waitInsteadOfSelfCheck: 60s$/);
    assert.match(all[1] ?? "", /kubectl -n ingress-nginx annotate service ingress-nginx-controller \S+=HOSTNAME /);
    assert.match(all[2] ?? "", /helm install switchback /);
    assert.deepEqual(cures({ ...HETZNER, selfChecks: FORBIDDEN }), all.slice(1));
  });

  test("of what only a probe shows is the probe", () => {
    assert.match(cures({ probe: undefined })[0] ?? "", /^switchback doctor --probe /);
    assert.match(cures({ probe: FORBIDDEN })[0] ?? "", / --image IMAGE /);
  });

  test("admit the pods first, if source ranges keep them out", () => {
    assert.match(cures({ ...nginx(LISTED), ...probe({ balancer: TIMEOUT }) })[0] ?? "", /`loadBalancerSourceRanges`/);
  });

  test("where Switchback runs, lead to the reason why it does not map the names", () => {
    const found = examine({ ...HEALTHY, ...unmapped() }).find(({ code }) => code === "pods-cut-off");
    assert.match(found?.cures.at(-1) ?? "", /`switchback status`/);
  });

  test("ask for a mapping by an annotation, where nothing is short-circuited", () => {
    const all = cures(nginx(PROXIED));
    assert.match(all.at(-1) ?? "", /\nkubectl -n ingress-nginx annotate service \S+ switchback.dev\/map=always$/);
    assert.match(all[0] ?? "", /^update the network plugin/);
  });
});

test("a finding says how many names it is about", () => {
  const all = ["a", "b", "B"].map((name) => ({ name, service: `${NGINX.namespace}/${NGINX.name}` }));
  const others = [
    { name: "*.c", service: all[0]?.service },
    { name: "d", service: undefined },
  ];
  assert.equal(firstOf({ names: known({ names: [...all, ...others], unread: [] }) })?.names, 2);
});
