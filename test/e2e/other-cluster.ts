import { basename } from "node:path";
import type { Cluster } from "../cluster/cluster.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import { OPTED_IN } from "./opted-in.ts";
import { SHOP } from "./shop.ts";
import { removeSwitchback, SYSTEM } from "./switchback.ts";

// A user's cluster: which add-ons it has, which files can run there, and how the tests leave it as it was.

/** Add-ons that a file may need, with the API that shows that a cluster has them. */
const ADD_ONS = { "cert-manager": /^cert-manager\.io\//m } as const;
type AddOn = keyof typeof ADD_ONS;

/**
 * Files that run on any cluster with these add-ons, by the number in their names. They bring a stand-in for an
 * ingress controller.
 */
const ANYWHERE: Readonly<Record<string, readonly AddOn[]>> = {
  "20": [],
  "50": [],
  "60": [],
  "65": [],
  "80": ["cert-manager"],
  "90": [],
  "95": [],
};

const OUTSIDE =
  "an ingress controller with PROXY protocol behind a load balancer, and an ACME server that calls it from outside";

/** What each of the other files needs and a test cannot have on a user's cluster. */
const OWN_NODE_ONLY: Readonly<Record<string, string>> = {
  "00": OUTSIDE,
  "10": OUTSIDE,
  "12": OUTSIDE,
  "15": `${OUTSIDE}; and the files of the node`,
  "30": "ingress controllers with PROXY v1 and v2 behind load balancers, and their access logs",
  "35": "ingress controllers with PROXY v1 and v2 behind load balancers, and their access logs",
  "36": "ingress controllers with PROXY v1 and v2 behind load balancers, whose configuration a test may change",
  "37": "Envoy Gateway, which the test installs",
  "38": "Contour, which the test installs",
  "39": "images of nginx, HAProxy and Caddy, and load balancers' Services whose status a test may change",
  "40": "a load balancer's Service whose status a test may change",
  "41": "a node with both families, one of which a test may drop",
  "61": "two nodes, one of which a test may cut off",
  "64": OUTSIDE,
  "67": "an image of CoreDNS that the nodes can pull",
  "68": `${OUTSIDE}; an image of CoreDNS that the nodes can pull, and root on the nodes`,
  "69": `${OUTSIDE}; and the cluster's own DNS, which the test changes`,
  "70": "a load balancer whose address does not answer to pods",
  "76": "proxies that a test may stop",
  "77": "a node of which it may take a port",
  "78": "components that a test may stop, and an API server whose metrics it may read",
  "79": `${OUTSIDE}; and the cluster's own DNS, which the test changes`,
  "85": "a network plugin that enforces NetworkPolicies, known addresses, and clients outside of the cluster",
  "75": "load balancers and an ingress controller in which a test may plant faults",
  "97": `${OUTSIDE}; and the container engine of each node`,
};

/** Why a file cannot run with these add-ons. Undefined if it can. */
export function missingFor(file: string, present: ReadonlySet<string>): string | undefined {
  const number = basename(file).slice(0, 2);
  const wanted = ANYWHERE[number];
  if (wanted === undefined) return `needs ${OWN_NODE_ONLY[number] ?? "this machine's own node"}`;
  const missing = wanted.filter((one) => !present.has(one));
  return missing.length === 0 ? undefined : `the cluster has no ${missing.join(", no ")}`;
}

/**
 * The add-ons of a cluster. @throws NotHere if the cluster does not answer, or has objects that the tests would make.
 */
export async function examine(cluster: Cluster): Promise<Set<string>> {
  const prefix = `E2E_KUBECONFIG: the cluster of ${process.env.E2E_KUBECONFIG}`;
  const { code, stdout, stderr } = await cluster.tool("kubectl", ["api-versions"]);
  if (code !== 0) throw new NotHere(`${prefix} does not answer: ${lastLine(stderr)}`);
  const namespaces = [SHOP, OPTED_IN, SYSTEM].map((name) => `namespace/${name}`);
  const objects = ["mutatingwebhookconfiguration/switchback-webhook", ...namespaces];
  for (const object of objects) {
    if ((await cluster.kubectl("get", object, "--ignore-not-found", "-o", "name")) === "") continue;
    throw new NotHere(`${prefix} has a ${object} already, which the tests would make and remove`);
  }
  return new Set(Object.entries(ADD_ONS).flatMap(([name, api]) => (api.test(stdout) ? [name] : [])));
}

/** Removes everything that the files have made in the cluster. */
export async function leave(cluster: Cluster): Promise<void> {
  await removeSwitchback(cluster);
  await cluster.kubectl("delete", "namespace", SHOP, OPTED_IN, "--ignore-not-found", "--timeout=120s");
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
