import type { Cluster } from "../cluster/cluster.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import type { Need } from "./needs.ts";
import { OPTED_IN } from "./opted-in.ts";
import { SHOP } from "./shop.ts";
import { removeSwitchback, SYSTEM } from "./switchback.ts";

// A user's cluster: which needs it meets, and how the tests leave it as it was.

/**
 * The needs that a cluster meets. @throws NotHere if the cluster does not answer, or has objects that the tests would
 * make.
 */
export async function examine(cluster: Cluster): Promise<Need[]> {
  const prefix = `E2E_KUBECONFIG: the cluster of ${process.env.E2E_KUBECONFIG}`;
  const { code, stdout, stderr } = await cluster.tool("kubectl", ["api-versions"]);
  if (code !== 0) throw new NotHere(`${prefix} does not answer: ${stderr.trim().split("\n").at(-1) ?? ""}`);
  const namespaces = [SHOP, OPTED_IN, SYSTEM].map((name) => `namespace/${name}`);
  const objects = ["mutatingwebhookconfiguration/switchback-webhook", ...namespaces];
  for (const object of objects) {
    if ((await cluster.kubectl("get", object, "--ignore-not-found", "-o", "name")) === "") continue;
    throw new NotHere(`${prefix} has a ${object} already, which the tests would make and remove`);
  }
  return /^cert-manager\.io\//m.test(stdout) ? ["cert-manager"] : [];
}

/** Removes everything that the files have made in the cluster. */
export async function leave(cluster: Cluster): Promise<void> {
  await removeSwitchback(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}
