import assert from "node:assert/strict";
import { describe, test } from "node:test";
import {
  ANSWERED,
  deployments,
  direct,
  install,
  MISREAD,
  probe,
  REFUSED,
  services,
} from "#test/fakes/doctor-changes.ts";
import { CLOSED, FORBIDDEN, HEALTHY, NGINX, NOT_INSTALLED } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { CallerFacts, ClusterFacts, ServiceFacts } from "../facts.ts";
import { checkNeed } from "./need-for-mapping.ts";

const HTTP: ServiceFacts = { ...NGINX, ports: NGINX.ports.slice(0, 1) };
const PROXIED: ServiceFacts = { ...HTTP, entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] };
const NAMED: ServiceFacts = { ...HTTP, entries: [{ hostname: "lb.example.com" }] };
const absent = (change: Partial<ClusterFacts>): ClusterFacts => ({ ...NOT_INSTALLED, ...change });
const one = (service: ServiceFacts) => services(service);
const issuers = (...waits: boolean[]) => ({
  httpSolvers: known(waits.map((is) => ({ issuer: "ClusterIssuer all", waits: is }))),
});
const WAIT = /^if only cert-manager calls public names: `waitInsteadOfSelfCheck/;

/** The facts, the status and code, and a part of the evidence. */
const CASES: readonly [what: string, facts: ClusterFacts, found: string, evidence: RegExp][] = [
  [
    "a target covers what the probe saw",
    HEALTHY,
    "ok need-met",
    /no answer at .*ingress-nginx-controller.*; opted-in pods/,
  ],
  ["a target covers what was not probed", { ...HEALTHY, probe: undefined }, "ok need-met", /bypass .*; opted-in pods/],
  ["a target without a relay", { ...HEALTHY, ...direct(), ...probe({}) }, "ok need-met", /opted-in/],
  ["no proxy is ready", { ...HEALTHY, ...deployments("switchback-proxy", 0) }, "warning mapping-needed", /no answer/],
  [
    "no right to read targets",
    { ...HEALTHY, ...install({ targets: FORBIDDEN }) },
    "unknown right-missing",
    /no answer .*; missing/,
  ],
  ["no right to list Services", absent({ services: FORBIDDEN }), "unknown right-missing", /missing permission/],
  ["no load balancer", absent(services()), "ok need-none", /no ingress controller has/],
  ["none that can be seen", absent({ ...services(), ingresses: FORBIDDEN }), "unknown right-missing", /missing/],
  ["no address yet", absent(one({ ...HTTP, entries: [] })), "unknown need-pending", /has no address yet/],
  ["bypassed, not probed", absent({}), "unknown need-unseen", /bypass the load balancer of Service ingress-nginx\//],
  ["bypassed, the probe failed", absent({ probe: FORBIDDEN }), "unknown need-unseen", /was not tested/],
  ["bypassed, and cut off", absent(probe({})), "warning mapping-needed", /although the ingress controller answers/],
  [
    "bypassed without harm",
    absent({ ...one(HTTP), ...probe({ service: HTTP, balancer: ANSWERED }) }),
    "ok need-none",
    /pods get an answer/,
  ],
  ["ipMode Proxy", absent(one(PROXIED)), "ok need-none", /has ipMode Proxy: .*not probed/],
  ["a host name", absent(one(NAMED)), "ok need-none", /has a hostname and no IP/],
  [
    "ipMode Proxy, ignored",
    absent({ ...one(PROXIED), ...probe({ service: PROXIED }) }),
    "warning mapping-needed",
    /no answer/,
  ],
  [
    "nothing works behind it",
    absent({ ...one(HTTP), ...probe({ service: HTTP, none: REFUSED, v1: REFUSED, v2: REFUSED, balancer: REFUSED }) }),
    "unknown need-unseen",
    /bypass/,
  ],
  [
    "without a header it answers, but not there",
    absent({ ...one(NAMED), ...probe({ service: NAMED, none: ANSWERED, v1: MISREAD, v2: MISREAD, balancer: CLOSED }) }),
    "warning mapping-needed",
    /no answer/,
  ],
];

describe("the first finding says whether Switchback is needed:", () => {
  for (const [what, facts, found, evidence] of CASES) {
    test(`${what}: ${found}`, () => {
      const [finding, ...more] = checkNeed(facts);
      assert.ok(finding);
      assert.deepEqual([`${finding.status} ${finding.code}`, finding.subject, more], [found, "this cluster", []]);
      assert.match(finding.evidence, evidence);
    });
  }

  test("cert-manager's setting comes first if a solver calls names; then the provider's; Switchback comes last", () => {
    const cures = (change: Partial<ClusterFacts>) => {
      const annotated = { ...HTTP, annotations: { "load-balancer.hetzner.cloud/name": "lb" } };
      return checkNeed(absent({ ...one(annotated), ...probe({ service: annotated }), ...change }))[0]?.cures ?? [];
    };
    const [first = "", second = "", ...rest] = cures(issuers(true, false));
    assert.match(first, WAIT);
    assert.match(second, /^Hetzner Cloud: /);
    assert.match(rest.at(-1) ?? "", /^install Switchback/);
    for (const change of [issuers(true), issuers(), { httpSolvers: known(undefined) }, { httpSolvers: FORBIDDEN }]) {
      assert.doesNotMatch(cures(change).join(), WAIT);
    }
  });

  const quiet = { workloads: [], refused: 0, masqueraded: 0, selfChecks: 0, total: 9 };
  const called = (change: Partial<CallerFacts>): Partial<ClusterFacts> => ({ callers: known({ ...quiet, ...change }) });
  const api = [{ owner: "shop/Deployment/api", calls: 3 }];
  /**
   * Facts about cert-manager and the log, and the status and a part of the evidence that they yield, with or without
   * a probe.
   */
  const CALLERS: readonly [what: string, change: Partial<ClusterFacts>, found: string, evidence: RegExp][] = [
    [
      "nobody",
      { ...called({}), ...issuers(true) },
      "ok need-nobody",
      /no pod is among .* 9 .*, and cert-manager waits/,
    ],
    ["nobody, no cert-manager", { ...called({}), httpSolvers: known(undefined) }, "ok need-nobody", /no pod[^,]*log$/],
    ["self-checks", { ...called({ selfChecks: 2 }), ...issuers(false) }, "broken", /log: 2 self-checks/],
    ["nobody, but it checks itself", { ...called({}), ...issuers(true, false) }, "broken", /from the log: none$/],
    ["nobody, issuers not read", { ...called({}), httpSolvers: FORBIDDEN }, "broken", /from the log: none$/],
    ["a log without calls", { ...called({ total: 0 }), ...issuers(true) }, "broken", /no call that could be read/],
    ["pods", { ...called({ workloads: api }), ...issuers(true) }, "broken", /log: shop\/Deployment\/api \(3\)$/],
    ["hidden pods", { ...called({ masqueraded: 4 }), ...issuers(true) }, "broken", /4 refused calls from a node/],
    ["no right to see", { callers: FORBIDDEN, ...issuers(true) }, "unknown right-missing", /missing permission/],
  ];
  test("a log line of a pod's refused connection is evidence that the cluster needs a mapping, without a probe", () => {
    const [finding] = checkNeed(
      absent({ probe: undefined, ...called({ workloads: api, refused: 2 }), ...issuers(true) }),
    );
    assert.equal(`${finding?.status} ${finding?.code}`, "warning mapping-needed");
    assert.match(finding?.evidence ?? "", /refused 2 connection\(s\) .*; callers .*: shop\/Deployment\/api \(3\)$/);
    assert.doesNotMatch(finding?.cures.join() ?? "", /--probe/);
  });

  test("after a probe that was not clear, the doctor does not say that nothing was tested, or to run a probe", () => {
    const down = { none: REFUSED, v1: REFUSED, v2: REFUSED, balancer: REFUSED };
    const [finding] = checkNeed(absent(probe(down)));
    assert.equal(finding?.code, "need-unseen");
    assert.match(finding?.evidence ?? "", /which the probe did not see$/);
    assert.doesNotMatch(finding?.cures.join() ?? "", /--probe/);
  });

  test("without a probe, source ranges may leave pods out, too", () => {
    const evidence = (sourceRanges: string[]) => checkNeed(absent(one({ ...HTTP, sourceRanges })))[0]?.evidence ?? "";
    assert.match(
      evidence(["203.0.113.0/24"]),
      /requires a PROXY header or loadBalancerSourceRanges leave the pods out/,
    );
    assert.doesNotMatch(evidence([]), /loadBalancerSourceRanges/);
  });

  for (const [what, change, found, evidence] of CALLERS) {
    for (const [probed, broken] of [
      [probe({}), "warning mapping-needed"],
      [{ probe: undefined }, "unknown need-unseen"],
    ] as const) {
      const expected = found === "broken" ? broken : found;
      test(`callers by the log, ${what}: ${expected}`, () => {
        const [finding] = checkNeed(absent({ ...probed, ...change }));
        assert.equal(`${finding?.status} ${finding?.code}`, expected);
        assert.match(finding?.evidence ?? "", evidence);
      });
    }
  }

  test("without a log, and if cert-manager does not call names, the first cure is to look for the callers", () => {
    const cures = (change: Partial<ClusterFacts>) => checkNeed(absent({ ...probe({}), ...change }))[0]?.cures ?? [];
    assert.match(
      cures(issuers(true))[0] ?? "",
      /kubectl -n ingress-nginx logs POD \| switchback doctor --ingress-log -/,
    );
    for (const change of [issuers(true, false), issuers(), { ...issuers(true), ...called({ masqueraded: 1 }) }])
      assert.doesNotMatch(cures(change).join(), /--ingress-log/);
  });

  test("names five of many load balancers, and lists equal cures once", () => {
    const many = Array.from({ length: 7 }, (_, index) => ({ ...HTTP, name: `lb-${index}` }));
    const [finding] = checkNeed(absent(services(...many)));
    assert.match(finding?.evidence ?? "", /lb-0, .*lb-4 and 2 more/);
    assert.equal(new Set(finding?.cures).size, finding?.cures.length);
  });
});
