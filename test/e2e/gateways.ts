import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { foundName } from "#controller/targets/service-view.ts";
import type { Finding } from "#doctor/findings.ts";
import type { ReportDocument } from "#doctor/report.ts";
import { setAddress } from "../cluster/addons/internet.ts";
import type { PublishedService } from "../cluster/addons/load-balancers.ts";
import type { Cluster, KubeObject } from "../cluster/cluster.ts";
import { createTestCa } from "../cluster/pki.ts";
import { clientAddresses, getMapped } from "./opted-in.ts";
import { IMAGE_NAME } from "./programs/run.ts";
import { getInside, getOutside, SHOP } from "./shop.ts";
import { frontAddress, leaderStatus, publishedMap } from "./switchback.ts";

// Shared by the tests of real ingress controllers: checks without Switchback, with it, and with the doctor. The proxies
// ask the ingress controllers whether they expect a PROXY header.

const PAGES = join(import.meta.dirname, "..", "..", "docs", "trust");
const READY_S = 120;

/**
 * Time from a change of an ingress controller to the change of its names: at most 55 s until one of two proxies notices
 * it, 30 s of equal answers, and the pauses.
 */
export const FOLLOWED_S = 120;

/** The name of the target that discovery creates for a load balancer's Service. */
export const found = ({ namespace, service }: Omit<PublishedService, "address">): string =>
  foundName(namespace, service);

/** Waits until a name leads to the front Service of the balancer's target. */
export async function mapped(cluster: Cluster, name: string, balancer: PublishedService): Promise<void> {
  await cluster.until(`${name} to lead to ${found(balancer)}`, FOLLOWED_S, async () => {
    const front = await frontAddress(cluster, found(balancer));
    return (await publishedMap(cluster)).split("\n").includes(`${front} ${name}`) || undefined;
  });
}

/** The current answer of each port of the balancer's target. */
export async function answers(
  cluster: Cluster,
  balancer: PublishedService,
): Promise<Record<string, string | undefined>> {
  const { targets } = await leaderStatus(cluster);
  const ports = targets.find(({ name }) => name === found(balancer))?.ports ?? [];
  return Object.fromEntries(ports.map(({ port, asked }) => [port, asked?.answer]));
}

/** Waits until both ports of the balancer's target have this answer. */
export async function answered(cluster: Cluster, balancer: PublishedService, expected: string): Promise<void> {
  await cluster.until(`both ports of ${found(balancer)} to be ${expected}`, FOLLOWED_S, async () => {
    const all = await answers(cluster, balancer);
    return (all[80] === expected && all[443] === expected) || undefined;
  });
}

/** The first block of a page of docs/trust, as an administrator copies it. It makes the software accept headers. */
export function trustSetting(page: string): string {
  const text = readFileSync(join(PAGES, `${page}.md`), "utf8");
  const block = /^## Set\n(?:.*\n)*?\n((?: {4}.*\n|\n)+)/m.exec(text)?.[1];
  assert.ok(block, `${page}.md has no block`);
  return block.replaceAll(/^ {4}/gm, "").trim();
}

/** A Secret with a certificate for these names. */
export function certificate(name: string, hosts: string[]): KubeObject {
  const { key, cert } = createTestCa("gateways").serving(hosts);
  const stringData = { "tls.key": key, "tls.crt": cert };
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { namespace: SHOP, name },
    type: "kubernetes.io/tls",
    stringData,
  };
}

const portOf = (url: string) => (url.startsWith("https:") ? 443 : 80);

/**
 * Checks that clients outside reach the URL through its load balancer, which adds the header. From here on, the name
 * is in the public DNS.
 */
export async function worksOutside(cluster: Cluster, url: string, { address }: PublishedService): Promise<void> {
  await setAddress(cluster, new URL(url).hostname, address);
  await cluster.until(`${url} to work from outside`, READY_S, async () => {
    const answer = await getOutside(cluster, url, `${address}:${portOf(url)}`);
    if (answer.status !== 200) throw new Error(JSON.stringify(answer));
    return true;
  });
}

/** Checks a pod that did not opt in: it sees the public address, and its connection is closed without an answer. */
export async function failsInside(cluster: Cluster, url: string, { address }: PublishedService): Promise<void> {
  const { error, remote } = await getInside(cluster, url);
  assert.equal(remote, `${address}:${portOf(url)}`);
  assert.match(error ?? "", /EOF|connection reset/);
}

/** Checks that the client that opted in is answered, and that the backend got the client's own address. */
export async function addressArrives(cluster: Cluster, url: string): Promise<void> {
  const answer = await getMapped(cluster, url);
  assert.equal(answer.status, 200, JSON.stringify(answer));
  const [address] = await clientAddresses(cluster);
  assert.match(answer.body ?? "", new RegExp(` for=${address}\\n`));
}

async function doctor(cluster: Cluster, ...flags: string[]): Promise<readonly Finding[]> {
  const { stdout, stderr } = await cluster.switchback("doctor", "-o", "json", "--probe", ...flags);
  assert.ok(stdout.startsWith("{"), stderr);
  return (JSON.parse(stdout) as ReportDocument).findings;
}

/** The doctor's finding for a Service if Switchback is not installed: with this code, or any. */
export async function foundWithoutUs(
  cluster: Cluster,
  code: string | undefined,
  balancer: PublishedService,
): Promise<Finding> {
  const findings = await doctor(cluster, "--namespace", "not-installed", "--image", IMAGE_NAME);
  const ofService = findings.filter(({ subject }) => subject.includes(`${balancer.namespace}/${balancer.service}`));
  const finding = ofService.find((one) => code === undefined || one.code === code);
  assert.ok(finding, JSON.stringify(ofService));
  return finding;
}

/** Does the check in the section "See that it works" of the pages in docs/trust. */
export async function trustIsSeen(cluster: Cluster, ...balancers: PublishedService[]): Promise<void> {
  const wanted = balancers.flatMap((balancer) => [
    ["relay-answers", `${balancer.namespace}/${balancer.service} port 80`],
    ["relay-answers", `${balancer.namespace}/${balancer.service} port 443`],
  ]);
  await cluster.until("the doctor sees that it works", READY_S, async () => {
    const findings = await doctor(cluster);
    const missing = wanted.filter(
      ([code, subject = ""]) => !findings.some((one) => one.code === code && one.subject.includes(subject)),
    );
    if (missing.length > 0) throw new Error(`${JSON.stringify(missing)}: ${JSON.stringify(findings)}`);
    return true;
  });
}
