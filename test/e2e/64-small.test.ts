import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { CERT_MANAGER } from "../cluster/addons/cert-manager.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withCluster } from "../cluster/whole.ts";
import { admissionCounts, clientRevision, createPods } from "./concurrent-pods.ts";
import { getMapped, inClient, optIn } from "./opted-in.ts";
import { certificateIsReady, ingress, NAME, openShop, orderCertificate } from "./shop.ts";
import {
  frontAddress,
  installSwitchback,
  OPT_IN,
  publishedMap,
  restartCertManager,
  SYSTEM,
  webhookAnswers,
} from "./switchback.ts";

// The chart's profile `small`: one process provides the same cure. At the end, the default profile is restored.

export const needs = ["node", "ipv4"];

const SMALL = "small.example.com";
const DEPLOYMENT = "switchback-all";
const COMPONENT = "app.kubernetes.io/component=all";
/** Longer than the tests need. `stop` ends the load. */
const LOAD_SECONDS = 60;
const PODS = 20;
const URLS = Array<string>(6).fill(`http://${NAME}/`);
/**
 * Memory that the chart requests for the process, in MiB. The process itself needs less, which leaves a reserve for
 * temporary use.
 */
const REQUESTED = 96;
const MOST_OF_REQUEST = 0.66;

let cluster: Cluster;
/** The front Service's address, if Switchback was installed before in the default profile. */
let addressBefore: string | undefined;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  const front = ["-n", SYSTEM, "get", "service", "switchback-ingress-nginx", "--ignore-not-found"];
  addressBefore = (await cluster.kubectl(...front, "-o", "jsonpath={.spec.clusterIP}")) || undefined;
});
after(async () => {
  await installSwitchback(cluster);
  await cluster.until("the front Service selects the proxies again", 60, async () => {
    return (await frontSelector()) === "proxy" || undefined;
  });
});

async function frontSelector(): Promise<string> {
  const component = "jsonpath={.spec.selector.app\\.kubernetes\\.io/component}";
  return await cluster.kubectl("-n", SYSTEM, "get", "service", "switchback-ingress-nginx", "-o", component);
}

async function mapped(name: string): Promise<void> {
  await cluster.until(
    `${name} is published`,
    30,
    async () => (await publishedMap(cluster)).includes(name) || undefined,
  );
}

test("the chart installs one Deployment with the linux engine; a front Service keeps its address", async () => {
  await installSwitchback(cluster, { profile: "small" });
  const deployments = await cluster.kubectl("-n", SYSTEM, "get", "deployments", "-o", "name");
  assert.equal(deployments.trim(), `deployment.apps/${DEPLOYMENT}`);
  const logs = await cluster.logs(SYSTEM, COMPONENT);
  assert.match(logs, /"engine":"linux"/);
  assert.doesNotMatch(logs, /"engine":"portable"/);
  await cluster.until(
    "the front Service selects its pod",
    60,
    async () => (await frontSelector()) === "all" || undefined,
  );
  const address = await frontAddress(cluster, "ingress-nginx");
  assert.equal(address, addressBefore ?? address);
});

test("a new Certificate is issued with all of cert-manager opted in", async (t) => {
  await cluster.apply(ingress("small", SMALL, "nginx", "small-tls"));
  await orderCertificate(cluster, SMALL, "small-tls");
  await mapped(SMALL);
  await cluster.kubectl("label", "namespace", CERT_MANAGER, OPT_IN, "--overwrite");
  const restarted = performance.now();
  await restartCertManager(cluster);
  await certificateIsReady(cluster, "small-tls");
  t.diagnostic(`restart of cert-manager to Certificate Ready: ${seconds(restarted)} s`);
});

test("the webhook answers while the relay is busy", async (t) => {
  await mapped(NAME);
  await optIn(cluster);
  const countsBefore = await admissionCounts(cluster);
  const load = inClient(cluster, "load", String(LOAD_SECONDS), ...URLS);
  const revisions = await createPods(cluster, { count: PODS });
  await inClient(cluster, "stop");
  const { answered, errors } = JSON.parse(await load) as { answered: number; errors: string[] };
  t.diagnostic(`${revisions.length} pods were made while ${answered} requests were relayed`);
  assert.deepEqual(new Set(revisions), new Set([await clientRevision(cluster)]), "every pod was injected");
  assert.ok(revisions.length === PODS && answered > 200);
  assert.deepEqual(errors, []);
  assert.deepEqual(await admissionCounts(cluster), countsBefore, "no webhook call failed open or was rejected");
});

test("the process needs little memory", async (t) => {
  const read =
    `for (const file of ["smaps_rollup", "status"]) process.stdout.write(require("fs").readFileSync("/proc/1/" + ` +
    "file))";
  const { stdout } = await cluster.exec(`${SYSTEM}/deployment/${DEPLOYMENT}`, "node", "-e", read);
  const mib = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+) kB`, "m").exec(stdout)?.[1]) / 1024;
  const [anonymous, resident] = [mib("Anonymous"), mib("VmRSS")];
  t.diagnostic(`anonymous ${anonymous.toFixed(1)} MiB, resident ${resident.toFixed(1)} MiB`);
  assert.ok(anonymous < MOST_OF_REQUEST * REQUESTED, `${anonymous} MiB anonymous`);
});

test("after a lost pod, names and admissions work again in seconds, and running pods need no restart", async (t) => {
  const lost = performance.now();
  await cluster.kubectl("-n", SYSTEM, "delete", "pod", "-l", COMPONENT, "--grace-period=0", "--force");
  await cluster.until("the running pod reaches the name again", 60, async () => {
    return (await getMapped(cluster, `http://${NAME}/`).catch(() => undefined))?.status === 200 || undefined;
  });
  t.diagnostic(`mapped names worked again after ${seconds(lost)} s`);
  await webhookAnswers(cluster);
  t.diagnostic(`new pods were injected again after ${seconds(lost)} s`);
});

function seconds(since: number): string {
  return ((performance.now() - since) / 1000).toFixed(1);
}
