import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessBy, Cluster } from "../cluster/cluster.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import { PRODUCT_IMAGE } from "../cluster/product-image.ts";
import { withCluster } from "../cluster/whole.ts";

/** The one file that needs nothing but a cluster. */
export const ANYWHERE = "95-any-cluster.test.ts";

/** What each of the other files needs of this machine's node. */
const NEEDS: Record<string, string> = {
  "00": "an ingress controller behind a load balancer with PROXY protocol, cert-manager and an ACME server outside",
  "10": "what 00 has set up",
  "20": "what 00 and 10 have set up, and a CoreDNS whose ConfigMap is known",
  "30": "the logs of an nginx and a Traefik that take PROXY headers",
  "35": "two ingress controllers that take different PROXY headers, and their logs",
  "40": "a load balancer whose status a test may change",
  "50": "images of clients with three resolvers",
};

export function needsOf(file: string): string {
  return NEEDS[file.slice(0, 2)] ?? "the load balancers, images and add-ons of this machine's node";
}

export interface Where {
  readonly cluster: Cluster;
  readonly image: { readonly repository: string; readonly tag: string; readonly pullPolicy: string };
}

/**
 * The cluster that E2E_KUBECONFIG names, with the image that E2E_IMAGE names and its nodes can pull, or have. Undefined: none is
 * named. @throws NotHere
 */
export function existing(env: NodeJS.ProcessEnv): Where | undefined {
  const { E2E_KUBECONFIG: kubeconfig, E2E_IMAGE: image } = env;
  if (!kubeconfig) return undefined;
  if (!existsSync(kubeconfig)) throw new NotHere(`E2E_KUBECONFIG: there is no file ${kubeconfig}`);
  const [, repository, tag] = /^(.+):([^:/]+)$/.exec(image ?? "") ?? [];
  if (repository === undefined || tag === undefined) {
    throw new NotHere("E2E_IMAGE: must name the image of Switchback that the cluster's nodes can pull: REPOSITORY:TAG");
  }
  const cluster = new Cluster(accessBy(kubeconfig, mkdtempSync(join(tmpdir(), "switchback-e2e-"))));
  return { cluster, image: { repository, tag, pullPolicy: "IfNotPresent" } };
}

/** That cluster, or this machine's own. */
export async function anyCluster(): Promise<Where> {
  return existing(process.env) ?? { cluster: await withCluster(), image: { ...PRODUCT_IMAGE, pullPolicy: "Never" } };
}
