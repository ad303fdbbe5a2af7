import { setTimeout as delay } from "node:timers/promises";
import { CERT_MANAGER } from "#test/cluster/addons/cert-manager.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { certificateIsReady, ingress, openShop, orderCertificate, SHOP } from "#test/e2e/shop.ts";
import { certManagerInStep, installSwitchback, OPT_IN, restoreCertManager, withAgent } from "#test/e2e/switchback.ts";
import { progress, type Reporter } from "../report.ts";
import { onCluster } from "./cluster.ts";

/** By default, two restarts of one workload are at least 30 s apart, and 60 s after the second restart. */
const REST_MS = 65_000;
const RESTART = { restart: { namespaces: [CERT_MANAGER] } };

/**
 * On this machine's cluster: time from an Ingress's creation until cert-manager has issued its Certificate by
 * HTTP-01. The running cert-manager gets no manual changes. Measured once with `restart` and once with `live`.
 */
export async function measureCertManager(report: Reporter): Promise<void> {
  await onCluster(SHOP, { config: RESTART }, async (cluster) => {
    try {
      await openShop(cluster);
      await cluster.kubectl("label", "namespace", CERT_MANAGER, OPT_IN, "--overwrite");
      await certManagerInStep(cluster);
      progress("waiting, so that the restart which injected cert-manager does not hold up the next");
      await delay(REST_MS);
      progress("cert-manager, restarted");
      const before = await newestPod(cluster);
      const byRestart = await issue(cluster, "bench-restart");
      const after = await newestPod(cluster);
      if (after === before) throw new Error("cert-manager was not restarted: something else was measured");
      await cluster.kubectl("annotate", "namespace", CERT_MANAGER, "switchback.dev/on-change=live", "--overwrite");
      await installSwitchback(cluster, withAgent(RESTART));
      await certManagerInStep(cluster);
      progress("cert-manager, live");
      const live = await issue(cluster, "bench-live");
      if ((await newestPod(cluster)) !== after)
        throw new Error("cert-manager was restarted: something else was measured");
      report.section({ issued: 2 });
      report.figure({ name: "ingress-to-certificate-restart", value: byRestart, unit: "s" });
      report.figure({ name: "ingress-to-certificate-live", value: live, unit: "s" });
    } finally {
      await cluster.kubectl("annotate", "namespace", CERT_MANAGER, "switchback.dev/on-change-");
      await restoreCertManager(cluster);
    }
  });
}

/** Seconds from an Ingress's creation to its Certificate. */
async function issue(cluster: Cluster, name: string): Promise<number> {
  const [host, secret] = [`${name}.example.com`, `${name}-tls`];
  const created = performance.now();
  await cluster.apply(ingress(name, host, "nginx", secret));
  await orderCertificate(cluster, host, secret);
  await certificateIsReady(cluster, secret);
  return (performance.now() - created) / 1000;
}

/** Newest pod of cert-manager's controller, which makes the self-checks. */
async function newestPod(cluster: Cluster): Promise<string> {
  const of = ["-n", CERT_MANAGER, "get", "pods", "-l", "app.kubernetes.io/component=controller"];
  const names = await cluster.kubectl(...of, "--sort-by=.metadata.creationTimestamp", "-o", "name");
  return names.trim().split("\n").at(-1) ?? "";
}
