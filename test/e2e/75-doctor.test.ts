import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { stringify } from "yaml";
import type { Finding, FindingStatus } from "#doctor/findings.ts";
import type { ReportDocument } from "#doctor/report.ts";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import { addressesOf, NGINX, PLAIN, publishAddress, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { OBJECTS, questionsIn, targetsIn, targetsObject } from "../published.ts";
import { optIn } from "./opted-in.ts";
import { ingress, openShop } from "./shop.ts";
import {
  configMaps,
  installSwitchback,
  leaderStatus,
  publishedMap,
  restartAllOfCertManager,
  SYSTEM,
} from "./switchback.ts";

// The doctor reports each planted fault with its code. Without a fault, it says that all is well.

export const needs: string[] = [];

const AT_PLAIN = "plain.example.com";
const CONFIGURATION = "mutatingwebhookconfiguration/switchback-webhook";

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster);
  // The address of this load balancer does not answer to pods. Only a mapped name can be reached.
  await cluster.apply(ingress("at-plain", AT_PLAIN, "plain"));
  await cluster.until(
    "the name is published",
    30,
    async () => (await publishedMap(cluster)).includes(AT_PLAIN) || undefined,
  );
  await mapAtRest();
  await optIn(cluster);
  await cluster.kubectl("label", "namespace", CERT_MANAGER, "switchback.dev/inject=enabled", "--overwrite");
  await restartAllOfCertManager(cluster);
});

/** Restores what a failed test has left. */
after(async () => {
  await publishAddress(cluster, NGINX);
  await cluster.kubectl("label", "namespace", "kube-public", "switchback.dev/inject-");
  await scale("controller", 2);
  await scale("proxy", 2);
  await scale("webhook", 2);
  await installSwitchback(cluster);
  assert.equal(await probePods(), "");
});

interface Examination {
  readonly code: number;
  readonly findings: readonly Finding[];
  readonly stderr: string;
  /** The findings that are not ok, one per line. */
  readonly text: string;
}

async function examine(...flags: string[]): Promise<Examination> {
  const { code, stdout, stderr } = await cluster.switchback("doctor", "-o", "json", ...flags);
  assert.ok(stdout.startsWith("{"), stderr);
  const { findings } = JSON.parse(stdout) as ReportDocument;
  const faults = findings.filter(({ status }) => status !== "ok");
  const text = faults.map(({ status, code: word, subject, evidence }) => `${status} ${word}: ${subject}: ${evidence}`);
  return { code, findings, stderr, text: text.join("\n") };
}

/** Asserts that a finding exists. It must have evidence, and a cure if there is something to do. */
function assertFound({ findings, text }: Examination, status: FindingStatus, code: string, subject: string): void {
  const finding = findings.find((one) => one.code === code && one.subject.includes(subject));
  assert.ok(finding, `${code} of ${subject} is not among\n${text}`);
  assert.equal(finding.status, status);
  assert.notEqual(finding.evidence, "");
  if (status === "warning" || status === "broken") assert.ok(finding.cures.length > 0);
}

/**
 * Scales and waits until exactly this number of pods exists, all ready. Pods that stop still serve while they drain.
 */
async function scale(component: string, replicas: number): Promise<void> {
  const deployment = `deployment/switchback-${component}`;
  await cluster.kubectl("-n", SYSTEM, "scale", deployment, `--replicas=${replicas}`);
  await cluster.rolledOut(SYSTEM, deployment);
  const pods = ["-n", SYSTEM, "get", "pods", "-l", `app.kubernetes.io/component=${component}`, "-o", "name"];
  await cluster.until(`${replicas} pods of ${component}`, 90, async () => {
    const names = (await cluster.kubectl(...pods)).split("\n").filter((name) => name !== "");
    return names.length === replicas || undefined;
  });
}

async function probePods(): Promise<string> {
  return await cluster.kubectl(
    "-n",
    "default",
    "get",
    "pods",
    "-l",
    "app.kubernetes.io/name=switchback-doctor",
    "-o",
    "name",
  );
}

async function patch(object: string, ...operations: object[]): Promise<void> {
  await cluster.kubectl("-n", SYSTEM, "patch", object, "--type=json", "-p", JSON.stringify(operations));
}

/** Saves an object. Returns a function that restores it with the same address, whatever has happened to it. */
async function save(object: string): Promise<() => Promise<void>> {
  const saved = await cluster.get<{ metadata: Record<string, unknown>; status?: unknown }>("-n", SYSTEM, object);
  const { name, namespace, labels, annotations } = saved.metadata;
  const text = stringify({ ...saved, metadata: { name, namespace, labels, annotations }, status: undefined });
  return async () => {
    await cluster.kubectl("-n", SYSTEM, "delete", object, "--ignore-not-found");
    const { code, stderr } = await cluster.tool("kubectl", ["create", "-f", "-"], text);
    assert.equal(code, 0, stderr);
  };
}

/**
 * Waits until no names of earlier files are about to leave the map. The doctor would rightly report stale pods for
 * such names. If many names leave at once, the controller holds their removal for five minutes.
 */
async function mapAtRest(): Promise<void> {
  await cluster.until("the map is at rest", 480, async () => {
    const { hold, leaving } = await leaderStatus(cluster);
    return (hold === undefined && leaving.length === 0) || undefined;
  });
}

/** Waits until the doctor finds no fault. kube-proxy, endpoints and the controller follow within seconds. */
async function allIsWell(): Promise<Examination> {
  let last: Examination | undefined;
  const well = async () => {
    last = await examine("--probe");
    return last.findings.every(({ status }) => status === "ok") ? last : undefined;
  };
  return await cluster.until("all is well", 180, well).catch(() => assert.fail(last?.text));
}

test("for the healthy install, the doctor says that all is well, and it removes the probe pod", async () => {
  const examination = await allIsWell();
  assertFound(examination, "ok", "relay-answers", `${NGINX.service} port 80`);
  assertFound(examination, "ok", "relay-answers", `${TRAEFIK.service} port 443`);
  assertFound(examination, "ok", "pods-reach-it", `${PLAIN.service} port 80`);
  assertFound(examination, "ok", "names-lead-to-it", NGINX.service);
  assertFound(examination, "ok", "webhook-answers", "new pods");
  assert.equal(examination.code, 0);
  assert.match(examination.stderr, /probe: creating pod default\/switchback-doctor-\w+ .*\n(.*\n)*probe: pod removed/);
  assert.equal(await probePods(), "");
});

test("without a probe, the doctor says that a target covers the load balancer", async () => {
  assertFound(await examine(), "ok", "short-circuit-cured", NGINX.service);
});

test("a namespace that opted in but for which the webhook is never called is reported", async () => {
  await cluster.kubectl("label", "namespace", "kube-public", "switchback.dev/inject=enabled");
  const examination = await examine();
  assertFound(examination, "broken", "namespace-excluded", "kube-public");
  assert.equal(examination.code, 1);
  await cluster.kubectl("label", "namespace", "kube-public", "switchback.dev/inject-");
});

test("a webhook configuration that fails closed is reported", async () => {
  const policy = (value: string) => patch(CONFIGURATION, { op: "replace", path: "/webhooks/1/failurePolicy", value });
  await policy("Fail");
  assertFound(await examine(), "broken", "webhook-fails-closed", CONFIGURATION.slice(-18));
  await policy("Ignore");
});

describe("without the controllers, which would repair the faults, the doctor reports", () => {
  before(() => scale("controller", 0));

  test("that no controller runs", async () => {
    const examination = await examine();
    assertFound(examination, "broken", "deployment-not-ready", "switchback-controller");
    assertFound(examination, "unknown", "not-read", "controller");
  });

  test("headers that are not sent or are refused, names that lead elsewhere, and a missing upstream", async () => {
    const object = `configmap/${OBJECTS.targets}`;
    const restore = await save(object);
    const all = await configMaps(cluster);
    const { targets } = targetsIn(all);
    const tell = (changed: typeof targets) => {
      const { data } = targetsObject(changed, questionsIn(all));
      return patch(object, { op: "replace", path: "/data", value: data });
    };
    const bare = targets.map((target) => {
      const none = target.ports.map((port) => ({ ...port, protocol: "none" as const }));
      return target.name === "ingress-nginx" ? { ...target, ports: none } : target;
    });
    // The Traefik of `plain` expects no header, and takes a header for a request.
    const upstream = `${PLAIN.service}.${PLAIN.namespace}.svc.cluster.local.`;
    const ports = [{ port: 80, listenPort: 24_990, upstreamPort: 80, protocol: "v1" as const }];
    // Nothing relays for `plain`, so its target has no ports yet.
    const others = bare.filter(({ name }) => name !== "plain");
    await tell([...others, { name: "plain", upstream, ports, clusterIPs: ["198.51.100.250"] }]);
    await publishAddress(cluster, { ...NGINX, ...addressesOf(({ freshLoadBalancer }) => freshLoadBalancer) });
    // Until kube-proxy releases the former address, nothing answers there.
    const examination = await cluster.until("the proxies and kube-proxy follow", 60, async () => {
      const seen = await examine("--probe");
      const codes = new Set(seen.findings.map(({ code }) => code));
      return codes.has("relay-refused") && codes.has("name-elsewhere") ? seen : undefined;
    });
    assertFound(examination, "broken", "relay-refused", `${NGINX.service} port 80`);
    assertFound(examination, "broken", "relay-refused", `${NGINX.service} port 443`);
    // No Service has the address of this target.
    assertFound(examination, "broken", "relay-unreachable", `${PLAIN.service} port 80`);
    assertFound(examination, "warning", "name-elsewhere", NGINX.service);
    assert.equal(examination.code, 1);
    await publishAddress(cluster, NGINX);
    await tell(targets.map((target) => ({ ...target, upstream: "nobody.plain.svc.cluster.local." })));
    assertFound(await examine(), "broken", "upstream-missing", "target traefik");
    await restore();
  });

  test("missing proxies, a missing webhook, and a missing webhook configuration", async () => {
    await Promise.all([scale("proxy", 0), scale("webhook", 0)]);
    const examination = await examine("--probe");
    assertFound(examination, "broken", "deployment-not-ready", "switchback-proxy");
    assertFound(examination, "broken", "relay-unreachable", `${NGINX.service} port 80`);
    assertFound(examination, "broken", "deployment-not-ready", "switchback-webhook");
    assertFound(examination, "broken", "webhook-silent", "new pods");
    const restore = await save(CONFIGURATION);
    await cluster.kubectl("delete", CONFIGURATION);
    assertFound(await examine(), "broken", "webhook-missing", CONFIGURATION.slice(-18));
    await restore();
  });

  test("that all is well again, once everything is repaired", async () => {
    await Promise.all(["controller", "proxy", "webhook"].map((component) => scale(component, 2)));
    await allIsWell();
  });
});
