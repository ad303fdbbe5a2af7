import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import {
  admission,
  deployments,
  entries,
  install,
  namespaces,
  nginx,
  probe,
  relayed,
  services,
  status,
  workload,
} from "#test/fakes/doctor-changes.ts";
import * as fakes from "#test/fakes/doctor-facts.ts";
import { examine } from "./checks.ts";
import { known } from "./fact.ts";
import type { ClusterFacts } from "./facts.ts";
import type { FindingStatus } from "./findings.ts";

const { HEALTHY, NGINX, FORBIDDEN, NAMESPACE, NOT_INSTALLED } = fakes;

function codes(facts: ClusterFacts, status?: FindingStatus): string[] {
  const found = examine(facts).filter((finding) => status === undefined || finding.status === status);
  return [...new Set(found.map(({ code }) => code))];
}

test("every finding about a healthy installation is ok", () => {
  for (const { status, code, evidence } of examine(HEALTHY)) assert.equal(status, "ok", `${code}: ${evidence}`);
  const expected = ["relay-answers", "names-lead-to-it", "deployment-ready"];
  assert.deepEqual(codes(HEALTHY), [...expected, "webhook-answers", "opted-in"]);
});

test("each finding that is not ok has a cure, except where the cluster hides the facts", () => {
  for (const [, change] of FAULTS) {
    for (const { status, cures, code } of examine({ ...HEALTHY, ...change })) {
      if (status === "warning" || status === "broken") assert.ok(cures.length > 0, code);
    }
  }
});

const dryRun = (outcome: "untouched" | "blocked" | "refused") => admission({ dryRun: known({ outcome, text: "t" }) });

/** One change to the facts, and all statuses and codes that are not ok after it. */
const FAULTS: readonly [what: string, change: Partial<ClusterFacts>, ...expected: `${FindingStatus} ${string}`[]][] = [
  [
    "the target's Service is gone, and another has the load balancer",
    { ...nginx({ namespace: "elsewhere" }), probe: undefined },
    "unknown need-unseen",
    "broken upstream-missing",
  ],
  ["an upstream port that is missing", nginx({ ports: NGINX.ports.slice(0, 1) }), "broken upstream-port-missing"],
  [
    "no endpoint",
    { endpoints: known([{ namespace: NGINX.namespace, name: NGINX.name, ready: 0 }]) },
    "broken upstream-without-endpoints",
  ],
  ["no upstream, and no name that leads there", { ...services(), ...relayed({ clusterIPs: [] }) }],
  ["no configuration", install({ config: known(undefined) }), "broken config-missing"],
  ["the configuration cannot be read", install({ config: FORBIDDEN }), "unknown right-missing"],
  ["a name that leads elsewhere", probe({ addresses: ["192.0.2.99"] }), "warning name-elsewhere"],
  ["a name without an address", probe({ failure: "ENOTFOUND" }), "warning name-unresolved"],
  ["no controller", deployments("switchback-controller", 0, 0), "broken deployment-not-ready"],
  ["a webhook that is not ready", deployments("switchback-webhook", 0), "broken deployment-not-ready"],
  ["one proxy of two", deployments("switchback-proxy", 1), "warning deployment-degraded"],
  ["no Deployment", install({ deployments: known([]) }), "broken deployment-missing"],
  ["no webhook configuration", admission({ configuration: known(undefined) }), "broken webhook-missing"],
  ["an entry less", entries(["pod"]), "broken webhook-missing"],
  ["failurePolicy Fail", entries(["namespace"], ["pod", { failurePolicy: "Fail" }]), "broken webhook-fails-closed"],
  [
    "a webhook elsewhere",
    entries(["namespace", { serviceNamespace: "other" }], ["pod"]),
    "warning installed-elsewhere",
  ],
  ["a webhook that does not answer", dryRun("untouched"), "broken webhook-silent"],
  ["a webhook that keeps pods out", dryRun("blocked"), "broken webhook-blocks"],
  ["somebody else keeps pods out", dryRun("refused"), "unknown dry-run-refused"],
  ["an excluded namespace", namespaces(["shop", "enabled"], ["kube-system", "enabled"]), "broken namespace-excluded"],
  ["a label that is not known", namespaces(["shop", "enabled"], ["other", "true"]), "warning label-unknown"],
  ["nobody opted in", { ...namespaces(["shop", "disabled"]), pods: known([]) }, "warning nobody-opted-in"],
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
  ["a warning of the controller's", status({ warnings: [{ code: "many-names", text: "t" }] }), "warning many-names"],
  ["right to list Services", { services: FORBIDDEN }, "unknown right-missing"],
  ["right to list what has names", { names: FORBIDDEN }, "unknown right-missing"],
  [
    "right to list one kind that has names",
    { names: known({ names: [], unread: [{ kind: "gateways", code: "forbidden", text: "t" }] }) },
    "unknown forbidden",
  ],
  ["right to list namespaces", { namespaces: FORBIDDEN }, "unknown right-missing"],
  ["right to read Deployments", install({ deployments: FORBIDDEN }), "unknown right-missing"],
  ["right to read the targets", install({ targets: FORBIDDEN }), "unknown right-missing"],
  ["right to read the status", install({ status: FORBIDDEN }), "unknown right-missing"],
  ["right to list EndpointSlices", { endpoints: FORBIDDEN }, "unknown right-missing"],
  ["right to read the webhook configuration", admission({ configuration: FORBIDDEN }), "unknown right-missing"],
  ["right to create a pod", admission({ dryRun: FORBIDDEN }), "unknown right-missing"],
];

describe("one thing is wrong, or could not be read:", () => {
  for (const [what, change, ...expected] of FAULTS) {
    test(what, () => {
      // What the probe saw would follow from a change of the targets as well.
      const facts = { ...HEALTHY, probe: undefined, ...change };
      const found = examine(facts).filter(({ status }) => status !== "ok");
      assert.deepEqual([...new Set(found.map(({ status, code }) => `${status} ${code}`))].sort(), [...expected].sort());
    });
  }
});

test("the cure of a Deployment names its namespace, and the label of its pods", () => {
  const [down] = examine({ ...HEALTHY, ...deployments("switchback-webhook", 0) }).filter(
    ({ code }) => code === "deployment-not-ready",
  );
  const pods = "-n switchback-system -l app.kubernetes.io/name=switchback,app.kubernetes.io/component=webhook";
  assert.deepEqual(down?.cures, [`kubectl describe pods ${pods}; kubectl logs ${pods}`]);
});

describe("without Switchback", () => {
  test("the doctor reports whether the cluster has the problem", () => {
    assert.deepEqual(codes(NOT_INSTALLED), ["need-unseen", "not-installed"]);
    const proxyMode = { ...NOT_INSTALLED, ...services({ ...NGINX, entries: [{ ip: "192.0.2.80", ipMode: "Proxy" }] }) };
    assert.deepEqual(codes(proxyMode), ["not-short-circuited", "not-installed"]);
    assert.deepEqual(codes({ ...NOT_INSTALLED, services: known([]) }), ["need-none", "not-installed"]);
  });

  test("if another namespace has an installation, only that is reported", () => {
    const serviceNamespace = "other";
    const configuration = known(["namespace", "pod"].map((name) => fakes.entry(name, { serviceNamespace })));
    const facts = { ...NOT_INSTALLED, admission: { ...NOT_INSTALLED.admission, configuration } };
    assert.deepEqual(codes(facts), ["need-unseen", "installed-elsewhere"]);
    const cures = examine(facts).flatMap((finding) => finding.cures);
    assert.deepEqual(cures.filter((cure) => cure.startsWith("switchback doctor --namespace other")).length, 2);
    assert.ok(!cures.some((cure) => cure.includes("helm install")), "it is installed");
  });

  test("unreadable facts do not mean that Switchback is absent", () => {
    const facts = {
      ...NOT_INSTALLED,
      install: { ...NOT_INSTALLED.install, config: FORBIDDEN, deployments: FORBIDDEN },
    };
    assert.ok(!codes(facts).includes("not-installed"));
    assert.ok(codes(facts, "unknown").includes("right-missing"));
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
  assert.ok(checks.size > 10, String(checks.size));
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
