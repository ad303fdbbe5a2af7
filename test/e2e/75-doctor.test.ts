import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import type { FindingStatus } from "#doctor/findings.ts";
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
  OPT_IN,
  publishedMap,
  restartAllOfCertManager,
  SYSTEM,
} from "./switchback.ts";

// What the doctor's pod sees on a real node: that all is well, and planted faults of the connections.
// test/integration/doctor.test.ts has what the API server allows, doctor/checks.test.ts every other finding.

export const needs: string[] = [];

const AT_PLAIN = "plain.example.com";
const TARGETS = `configmap/${OBJECTS.targets}`;

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
  // The doctor would rightly report stale pods for names of earlier files that are about to leave the map. If many
  // names leave at once, the controller holds their removal for five minutes.
  await cluster.until("the map is at rest", 480, async () => {
    const { hold, leaving } = await leaderStatus(cluster);
    return (hold === undefined && leaving.length === 0) || undefined;
  });
  await optIn(cluster);
  await cluster.kubectl("label", "namespace", CERT_MANAGER, OPT_IN, "--overwrite");
  await restartAllOfCertManager(cluster);
});

after(async () => {
  await publishAddress(cluster, NGINX);
  await scale("controller", 2);
  await scale("proxy", 2);
  await installSwitchback(cluster);
});

interface Examination extends Pick<ReportDocument, "findings"> {
  readonly code: number;
  readonly stderr: string;
  /** The findings that are not ok, one per line. */
  readonly text: string;
}

/** Runs the doctor with its probe, and waits until the pod is gone. */
async function examine(...flags: string[]): Promise<Examination> {
  const { code, stdout, stderr } = await cluster.switchback("doctor", "--probe", "-o", "json", ...flags);
  assert.ok(stdout.startsWith("{"), stderr);
  const { findings } = JSON.parse(stdout) as ReportDocument;
  const faults = findings.filter(({ status }) => status !== "ok");
  const text = faults.map(({ status, code: word, subject, evidence }) => `${status} ${word}: ${subject}: ${evidence}`);
  const pods = ["-n", "default", "get", "pods", "-l", "app.kubernetes.io/name=switchback-doctor", "-o", "name"];
  await cluster.until("the probe's pod is gone", 30, async () => (await cluster.kubectl(...pods)) === "" || undefined);
  return { code, findings, stderr, text: text.join("\n") };
}

/** Asserts that a finding exists. It must have a cure if there is something to do. */
function assertFound({ findings, text }: Examination, status: FindingStatus, code: string, subject: string): void {
  const finding = findings.find((one) => one.code === code && one.subject.includes(subject));
  assert.ok(finding, `${code} of ${subject} is not among\n${text}`);
  assert.equal(finding.status, status);
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

test("for the healthy install, the doctor says that all is well, and it removes the probe pod", async () => {
  let last: Examination | undefined;
  // kube-proxy, endpoints and the controller follow within seconds.
  const well = async () => {
    last = await examine();
    return last.findings.every(({ status }) => status === "ok") ? last : undefined;
  };
  const examination = await cluster.until("all is well", 180, well).catch(() => assert.fail(last?.text));
  assertFound(examination, "ok", "relay-answers", `${NGINX.service} port 80`);
  assertFound(examination, "ok", "relay-answers", `${TRAEFIK.service} port 443`);
  assertFound(examination, "ok", "pods-reach-it", `${PLAIN.service} port 80`);
  assertFound(examination, "ok", "names-lead-to-it", NGINX.service);
  assertFound(examination, "ok", "webhook-answers", "new pods");
  assert.equal(examination.code, 0);
  assert.match(examination.stderr, /probe: creating pod default\/switchback-doctor-\w+ .*\n(.*\n)*probe: pod removed/);
});

test("if the image cannot be pulled, the doctor says so, and answers with the rest", async () => {
  const examination = await examine("--image", "localhost:1/none");
  assertFound(examination, "unknown", "probe-not-started", "probe");
  assert.match(examination.text, /cannot start: Pending, (ErrImagePull|ImagePullBackOff), .*localhost:1\/none/);
  assertFound(examination, "ok", "short-circuit-cured", NGINX.service);
  assert.equal(examination.code, 0);
});

test("headers that are not sent or are refused, names that lead elsewhere, and missing proxies", async () => {
  // The controller would repair the faults.
  await scale("controller", 0);
  const restored = await cluster.get<{ data: object }>("-n", SYSTEM, TARGETS);
  const tell = ({ data }: { readonly data: object }) =>
    cluster.kubectl("-n", SYSTEM, "patch", TARGETS, "--type=merge", "-p", JSON.stringify({ data }));
  const all = await configMaps(cluster);
  const targets = targetsIn(all).targets.map((target) => {
    const ports = target.ports.map((port) => ({ ...port, protocol: "none" as const }));
    return target.name === "ingress-nginx" ? { ...target, ports } : target;
  });
  await tell(targetsObject(targets, questionsIn(all)));
  await publishAddress(cluster, { ...NGINX, ...addressesOf(({ freshLoadBalancer }) => freshLoadBalancer) });
  // Until kube-proxy releases the former address, nothing answers there.
  const examination = await cluster.until("the proxies and kube-proxy follow", 60, async () => {
    const seen = await examine();
    const codes = new Set(seen.findings.map(({ code }) => code));
    return codes.has("relay-refused") && codes.has("name-elsewhere") ? seen : undefined;
  });
  assertFound(examination, "broken", "relay-refused", `${NGINX.service} port 80`);
  assertFound(examination, "broken", "relay-refused", `${NGINX.service} port 443`);
  assertFound(examination, "warning", "name-elsewhere", NGINX.service);
  assertFound(examination, "broken", "deployment-not-ready", "switchback-controller");
  assert.equal(examination.code, 1);
  await tell(restored);
  await scale("proxy", 0);
  assertFound(await examine(), "broken", "relay-unreachable", `${NGINX.service} port 80`);
});
