import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { Finding } from "#doctor/findings.ts";
import type { ReportDocument } from "#doctor/report.ts";
import { NGINX } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { withPort } from "../cluster/node/layout.ts";
import { withCluster } from "../cluster/whole.ts";
import { IMAGE_NAME } from "./programs/run.ts";
import {
  certificateIsReady,
  getInside,
  getOutside,
  isCertificateReady,
  NAME,
  openShop,
  orderCertificate,
  SHOP,
} from "./shop.ts";
import { removeSwitchback, restoreCertManager } from "./switchback.ts";

// Without Switchback in the cluster: the failure that Switchback cures.

export const needs: string[] = [];

const WAITING = "waits.example.com";
const BROKEN_HEADER = /broken header: ".*" while reading PROXY protocol/s;

let cluster: Cluster;

before(async () => {
  cluster = await withCluster();
  await removeSwitchback(cluster);
  await restoreCertManager(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, "--ignore-not-found", "--timeout=120s");
  await openShop(cluster);
});

test("the public name works from outside", async () => {
  const answer = await cluster.until("the shop is open", 30, async () => {
    const got = await getOutside(cluster, `http://${NAME}/`, withPort(NGINX.address, 80));
    return got.status === 200 ? got : undefined;
  });
  assert.match(answer.body ?? "", /^the shop /);
});

// cert-manager has this setting from 1.21 (its PR 8858). If cert-manager is the only caller of public names, nobody
// needs Switchback.
test("with waitInsteadOfSelfCheck a Certificate is issued too, and the doctor does not suggest it", async (t) => {
  const ordered = performance.now();
  // After this delay, cert-manager asks the ACME server to validate, even if the solver is not ready yet. A failed
  // validation ends the order, and cert-manager retries only after an hour. With NetworkPolicies enforced, a solver's
  // pod took 5.8 s to start.
  await orderCertificate(cluster, WAITING, "waits-tls", { issuer: "waits", waitInsteadOfSelfCheck: "15s" });
  await certificateIsReady(cluster, "waits-tls");
  t.diagnostic(`ordered to Ready: ${((performance.now() - ordered) / 1000).toFixed(1)} s`);
  assert.doesNotMatch((await diagnosed("--no-probe")).cures.join(), /waitInsteadOfSelfCheck/);
  for (const object of ["issuer/waits", "certificate/waits-tls", "secret/waits-tls"])
    await cluster.kubectl("-n", SHOP, "delete", object);
});

/** The doctor's headline, and its finding about nginx' Service. */
async function diagnosed(...flags: string[]): Promise<Finding & { readonly headline: string }> {
  const { stdout, stderr } = await cluster.switchback("doctor", "-o", "json", ...flags);
  assert.ok(stdout.startsWith("{"), stderr);
  const { headline, findings } = JSON.parse(stdout) as ReportDocument;
  const finding = findings.find(({ subject }) => subject === `Service ${NGINX.namespace}/${NGINX.service}`);
  assert.ok(finding, stdout);
  return { headline, ...finding };
}

for (const scheme of ["http", "https"]) {
  test(`a pod that calls the public name by ${scheme} gets no answer, and nginx says why`, async () => {
    for (const address of NGINX.addresses) {
      const since = new Date();
      const { error, remote } = await getInside(cluster, `${scheme}://${NAME}/`, address);
      assert.equal(remote, withPort(address, scheme === "http" ? 80 : 443), "the pod sees the public address");
      assert.match(error ?? "", /EOF|connection reset/);
      const log = await nginxLog(since);
      assert.match(log, BROKEN_HEADER);
    }
  });
}

test("cert-manager's self-check fails in the same way, and the Challenge stays pending", async () => {
  const since = new Date();
  await orderCertificate(cluster);
  const reason = await cluster.until("a Challenge with a failed self-check", 60, async () => {
    const { items } = await cluster.get<ChallengeList>("-n", SHOP, "challenges");
    const status = items[0]?.status;
    return status?.state === "pending" && /self check/.test(status.reason ?? "") ? status.reason : undefined;
  });
  assert.match(reason, /failed to perform self check GET request .*app\.example\.com.*: EOF/);
  const log = await nginxLog(since);
  assert.match(log, /broken header: "GET \/\.well-known\/acme-challenge\//);
  assert.equal(await isCertificateReady(cluster), false);
  assert.equal((await diagnosed("--no-probe")).code, "need-unseen");
  // The cluster has no other image with Node. The image's own program does not run.
  const { headline, code, cures } = await diagnosed("--probe", "--image", IMAGE_NAME);
  assert.match(headline, /^Pods cannot reach \d+ (names?|Services?): the ingress controller demands a PROXY header$/);
  assert.equal(code, "pods-cut-off");
  assert.match(cures[0] ?? "", /waitInsteadOfSelfCheck: 60s$/);
});

interface ChallengeList {
  items: { status?: { state?: string; reason?: string } }[];
}

/** Waits for the broken header in nginx' log. nginx writes at once, but the line takes a moment to arrive. */
async function nginxLog(since: Date): Promise<string> {
  return await cluster.until("nginx logs the broken header", 15, async () => {
    const log = await cluster.logs(NGINX.namespace, `app=${NGINX.service}`, since);
    return BROKEN_HEADER.test(log) ? log : undefined;
  });
}
