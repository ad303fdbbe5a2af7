import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import {
  ANSWERED,
  admission,
  deployments,
  direct,
  entries,
  front,
  install,
  MISREAD,
  namespaces,
  nginx,
  pod,
  probe,
  REFUSED,
  services,
  status,
  TIMEOUT,
  workload,
} from "#test/fakes/doctor-changes.ts";
import * as fakes from "#test/fakes/doctor-facts.ts";
import { examine } from "./checks.ts";
import { known } from "./fact.ts";
import type { ClusterFacts } from "./facts.ts";
import type { FindingStatus } from "./findings.ts";

const { HEALTHY, NGINX, FRONT, FORBIDDEN, CLOSED, NAMESPACE, NOT_INSTALLED } = fakes;
function codes(facts: ClusterFacts, status?: FindingStatus): string[] {
  const found = examine(facts).filter((finding) => status === undefined || finding.status === status);
  return [...new Set(found.map(({ code }) => code))];
}

test("every finding about a healthy installation is ok", () => {
  for (const { status, code, evidence } of examine(HEALTHY)) assert.equal(status, "ok", `${code}: ${evidence}`);
  const expected = [
    "need-met",
    "short-circuit-cured",
    "header-accepted",
    "names-lead-to-it",
    "deployment-ready",
    "target-whole",
  ];
  const others = ["relay-answers", "proxy-serving", "webhook-whole", "webhook-answers", "controller-settled"];
  assert.deepEqual(codes(HEALTHY), [...expected, ...others, "opted-in", "pods-in-step"]);
});

test("each finding that is not ok has a cure, except where the cluster hides the facts", () => {
  for (const [, change] of FAULTS) {
    for (const { status, cures, code } of examine({ ...HEALTHY, ...change })) {
      if (status === "warning" || status === "broken") assert.ok(cures.length > 0, code);
    }
  }
});

/** One change to the facts, and all statuses and codes that are not ok after it. */
const FAULTS: readonly [what: string, change: Partial<ClusterFacts>, ...expected: `${FindingStatus} ${string}`[]][] = [
  ["no address yet", nginx({ entries: [] }), "unknown need-pending", "warning address-pending"],
  [
    "the Ingress's own load balancer, no target",
    nginx({ namespace: "elsewhere" }),
    "unknown need-unseen",
    "warning short-circuited",
    "broken upstream-missing",
  ],
  ["an upstream port that is not there", nginx({ ports: NGINX.ports.slice(0, 1) }), "broken upstream-port-missing"],
  ["no upstream Service", services(FRONT), "broken upstream-missing"],
  [
    "no endpoint",
    { endpoints: known([{ namespace: NGINX.namespace, name: NGINX.name, ready: 0 }]) },
    "broken upstream-without-endpoints",
  ],
  ["no front Service", services(NGINX), "broken front-missing"],
  [
    "a front's port led elsewhere",
    front({ ports: FRONT.ports.map((port) => ({ ...port, targetPort: "1" })) }),
    "broken front-port-wrong",
  ],
  ["a front that selects others", front({ selector: { app: "other" } }), "broken front-selector-wrong"],
  ["a front with another address", front({ clusterIPs: ["198.51.100.77"] }), "broken front-address-changed"],
  ["no configuration", install({ config: known(undefined) }), "broken config-missing"],
  [
    "a target that the proxies were not told of",
    install({ targets: known([]) }),
    "warning mapping-needed",
    "broken target-not-published",
  ],
  ["no address in the map", install({ map: known({ targets: [], map: fakes.MAP }) }), "warning front-not-published"],
  ["right to read what the proxies were told", install({ targets: FORBIDDEN }), "unknown right-missing"],
  [
    "a header that is refused",
    probe({ none: ANSWERED, v1: MISREAD, v2: MISREAD, front: MISREAD }),
    "broken header-refused",
    "broken relay-refused",
  ],
  ["another version", probe({ v1: CLOSED, front: CLOSED }), "broken header-version-wrong", "broken relay-refused"],
  ["a header that is demanded, none configured", direct(), "broken header-demanded"],
  [
    "nothing is answered",
    probe({ v1: CLOSED, v2: CLOSED, front: CLOSED }),
    "broken backend-mute",
    "broken relay-refused",
  ],
  [
    "nothing is answered, none configured",
    { ...direct(), ...probe({ v1: CLOSED, v2: CLOSED }) },
    "broken backend-mute",
  ],
  ["nothing listens", probe({ none: REFUSED, v1: REFUSED, v2: REFUSED }), "broken backend-unreachable"],
  ["the proxies are not trusted", probe({ front: CLOSED }), "broken relay-refused"],
  ["no proxy behind the front", probe({ front: REFUSED }), "broken relay-unreachable"],
  ["the front takes no connection", probe({ front: TIMEOUT }), "broken relay-unreachable"],
  ["a name that leads elsewhere", probe({ addresses: ["192.0.2.99"] }), "warning name-elsewhere"],
  ["a name without an address", probe({ failure: "ENOTFOUND" }), "warning name-unresolved"],
  ["no probe", { probe: undefined }, "unknown not-probed"],
  ["a probe that failed", { probe: FORBIDDEN }, "unknown right-missing"],
  ["no controller", deployments("switchback-controller", 0, 0), "broken deployment-not-ready"],
  ["a webhook that is not ready", deployments("switchback-webhook", 0), "broken deployment-not-ready"],
  ["one proxy of two", deployments("switchback-proxy", 1), "warning deployment-degraded"],
  [
    "no Deployment",
    install({ deployments: known([]) }),
    "warning mapping-needed",
    "broken deployment-missing",
    "broken short-circuit-uncured",
  ],
  ["no webhook configuration", admission({ configuration: known(undefined) }), "broken webhook-missing"],
  ["an entry less", entries(["pod"]), "broken webhook-entry-missing"],
  ["failurePolicy Fail", entries(["namespace"], ["pod", { failurePolicy: "Fail" }]), "broken webhook-fails-closed"],
  ["a long timeout", entries(["namespace", { timeoutSeconds: 30 }], ["pod"]), "warning webhook-timeout-long"],
  ["no caBundle", entries(["namespace", { caBundle: "" }], ["pod"]), "broken ca-bundle-empty"],
  ["a caBundle of nonsense", entries(["namespace", { caBundle: "nonsense" }], ["pod"]), "broken ca-bundle-broken"],
  ["another CA", entries(["namespace", { caBundle: fakes.OTHER_CA }], ["pod"]), "broken ca-bundle-mismatch"],
  [
    "a certificate of nonsense",
    admission({ servingCertificate: known("nonsense") }),
    "broken serving-certificate-broken",
  ],
  [
    "a webhook elsewhere",
    entries(["namespace", { service: { namespace: "other", name: "w", port: 443 } }], ["pod"]),
    "warning installed-elsewhere",
  ],
  ["a webhook that does not answer", admission({ dryRun: known({ outcome: "untouched" }) }), "broken webhook-silent"],
  [
    "a webhook that keeps pods out",
    admission({ dryRun: known({ outcome: "blocked", text: "t" }) }),
    "broken webhook-blocks",
  ],
  [
    "somebody else keeps pods out",
    admission({ dryRun: known({ outcome: "refused", text: "quota" }) }),
    "unknown dry-run-refused",
  ],
  ["an excluded namespace", namespaces(["shop", "enabled"], ["kube-system", "enabled"]), "broken namespace-excluded"],
  ["a label that is not known", namespaces(["shop", "enabled"], ["other", "true"]), "warning label-unknown"],
  ["nobody opted in", { ...namespaces(["shop", "disabled"]), pods: known([]) }, "warning nobody-opted-in"],
  ["a pod that was opted out", namespaces(["shop", "disabled"]), "warning nobody-opted-in", "warning pod-left-over"],
  ["a pod without annotations", pod({ annotations: {}, aliasAddresses: [] }), "broken pod-not-injected"],
  ["a pod of an earlier map", pod({ annotations: { "switchback.dev/revision": "0" } }), "warning pod-stale"],
  [
    "a pod with an address that is no target's",
    pod({
      annotations: { "switchback.dev/owned": "198.51.100.77 x1 (0123456789ab)" },
      aliasAddresses: ["198.51.100.77"],
    }),
    "broken pod-address-lost",
  ],
  ["no map", install({ map: known(undefined) }), "broken map-missing", "warning front-not-published"],
  ["a source that is not read", status({ sources: [{ name: "ingress", synced: false }] }), "broken source-not-synced"],
  ["nobody leads", status({ leader: false }), "broken no-leader"],
  [
    "a workload that stays behind",
    status({ running: { workloads: [workload({}), workload({ standing: "waiting" }), workload({ stale: 0 })] } }),
    "warning workload-stuck",
  ],
  ["a held removal", status({ hold: { names: 6, of: 10, until: 0 } }), "warning removal-held"],
  [
    "a refused name",
    status({ names: [{ name: "x", reason: { code: "conflict", text: "t" } }] }),
    "warning names-refused",
  ],
  ["a warning of the controller's", status({ warnings: [{ code: "over-cap", text: "t" }] }), "warning over-cap"],
  [
    "a replica that does not listen",
    install({ proxyReadyz: known("[-] listener web:80: not bound (EACCES)") }),
    "broken proxy-not-serving",
  ],
  [
    "a dial that fails",
    install({
      proxyReadyz: known(
        "[i] upstream web:80: failing (timeout: connect) since 2026-01-01T00:00:00.000Z, h: no address",
      ),
    }),
    "broken dial-failing",
  ],
  ["right to list Services", { services: FORBIDDEN }, "unknown right-missing"],
  ["right to list Ingresses", { ingresses: FORBIDDEN }, "unknown right-missing"],
  ["right to list Gateways", { gateways: FORBIDDEN }, "unknown right-missing"],
  ["right to list namespaces", { namespaces: FORBIDDEN }, "unknown right-missing"],
  ["right to list pods", { pods: FORBIDDEN }, "unknown right-missing"],
  ["right to read Deployments", install({ deployments: FORBIDDEN }), "unknown right-missing"],
  ["right to read the status", install({ status: FORBIDDEN }), "unknown right-missing"],
  ["right to ask a proxy", install({ proxyReadyz: FORBIDDEN }), "unknown right-missing"],
  ["right to list EndpointSlices", { endpoints: FORBIDDEN }, "unknown right-missing"],
  ["right to read the webhook configuration", admission({ configuration: FORBIDDEN }), "unknown right-missing"],
  ["right to create a pod", admission({ dryRun: FORBIDDEN }), "unknown right-missing"],
];

describe("one thing is wrong, or could not be read:", () => {
  for (const [what, change, ...expected] of FAULTS) {
    test(what, () => {
      const found = examine({ ...HEALTHY, ...change }).filter(({ status }) => status !== "ok");
      assert.deepEqual([...new Set(found.map(({ status, code }) => `${status} ${code}`))].sort(), [...expected].sort());
    });
  }
});

describe("without Switchback", () => {
  test("the doctor reports whether the cluster has the problem", () => {
    assert.deepEqual(codes(NOT_INSTALLED), ["need-unseen", "short-circuited", "not-probed", "not-installed"]);
    const proxyMode = { ...NOT_INSTALLED, ...services({ ...NGINX, entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] }) };
    assert.deepEqual(codes(proxyMode), ["need-none", "ip-mode-proxy", "not-probed", "not-needed"]);
    assert.deepEqual(codes({ ...NOT_INSTALLED, services: known([]) }), [
      "need-none",
      "no-load-balancer",
      "not-probed",
      "not-needed",
    ]);
  });

  test("if another namespace has an installation, only that is reported", () => {
    const service = { namespace: "other", name: "w", port: 443 };
    const configuration = known([fakes.entry("namespace", { service }), fakes.entry("pod", { service })]);
    const facts = { ...NOT_INSTALLED, admission: { ...NOT_INSTALLED.admission, configuration } };
    assert.deepEqual(codes(facts), ["need-unseen", "short-circuited", "not-probed", "installed-elsewhere"]);
  });

  test("unreadable facts do not mean that Switchback is absent", () => {
    const facts = {
      ...NOT_INSTALLED,
      install: { ...NOT_INSTALLED.install, config: FORBIDDEN, deployments: FORBIDDEN },
    };
    const found = examine(facts);
    assert.ok(!found.some(({ code }) => code === "not-installed" || code === "not-needed"));
    assert.ok(found.some(({ code, status }) => code === "right-missing" && status === "unknown"));
  });
});

test("every check is in docs/doctor.md", () => {
  const top = new URL("..", import.meta.url);
  const sources = globSync(["doctor/**/*.ts", "extras/**/*.ts"], { cwd: top, exclude: ["**/*.test.ts"] });
  const checks = new Set(
    sources
      .flatMap((file) => [...readFileSync(new URL(file, top), "utf8").matchAll(/ = findingsOf\("([a-z-]+)"\)/g)])
      .map(([, check = ""]) => check),
  );
  assert.ok(checks.size > 15, String(checks.size));
  const page = readFileSync(new URL("docs/doctor.md", top), "utf8");
  assert.deepEqual(
    [...checks].filter((check) => !page.includes(`\`${check}\``)),
    [],
  );
});

test("the live webhook configuration decides which namespaces are excluded, even another installation's", () => {
  const facts = { ...HEALTHY, ...namespaces([NAMESPACE, "enabled"], ["shop", "enabled"]) };
  assert.deepEqual(codes(facts, "broken"), ["namespace-excluded"]);
});
