import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { NGINX, PLAIN, TRAEFIK } from "../cluster/addons/load-balancers.ts";
import { accessBy, Cluster } from "../cluster/cluster.ts";
import { PRODUCT_IMAGE } from "../cluster/images.ts";
import { statePath } from "../cluster/node/layout.ts";
import { NotHere } from "../cluster/node/requirements.ts";
import { SHOP } from "./shop.ts";

// The cluster for the tests. It is this machine's own node with all its add-ons, or the unchanged cluster that
// E2E_KUBECONFIG names.

/** What the tests must know about the cluster. */
export interface ClusterTarget {
  /** Undefined for this machine's own node. */
  readonly other: Cluster | undefined;
  /** Switchback's image. Its Node also runs the programs of the tests. */
  readonly image: { readonly repository: string; readonly tag: string; readonly pullPolicy: string };
  /** `config.targets`. */
  readonly targets: readonly object[];
  /** The target of NAME (shop.ts), and the class of its Ingresses. */
  readonly target: string;
  readonly className: string;
  readonly kubeletRoot: string;
}

let known: ClusterTarget | undefined;

/** @throws NotHere */
export function clusterTarget(): ClusterTarget {
  known ??= existing(process.env) ?? {
    other: undefined,
    image: { ...PRODUCT_IMAGE, pullPolicy: "Never" },
    targets: ownTargets(process.env.E2E_BREAK ?? ""),
    target: "ingress-nginx",
    className: "nginx",
    kubeletRoot: statePath("kubelet"),
  };
  return known;
}

/**
 * The cluster that E2E_KUBECONFIG names. E2E_IMAGE names an image that its nodes have or can pull. Undefined if no
 * cluster is named. @throws NotHere
 */
function existing(env: NodeJS.ProcessEnv): ClusterTarget | undefined {
  const { E2E_KUBECONFIG: kubeconfig, E2E_IMAGE: image } = env;
  if (!kubeconfig) return undefined;
  if (!existsSync(kubeconfig)) throw new NotHere(`E2E_KUBECONFIG: there is no file ${kubeconfig}`);
  const [, repository, tag] = /^(.+):([^:/]+)$/.exec(image ?? "") ?? [];
  if (repository === undefined || tag === undefined) {
    throw new NotHere("E2E_IMAGE: must name the image of Switchback that the cluster's nodes can pull: REPOSITORY:TAG");
  }
  const [target, className] = ["stand-in", "switchback-e2e"];
  const upstream = { service: { namespace: SHOP, name: "app" } };
  const home = mkdtempSync(join(tmpdir(), "switchback-e2e-"));
  process.once("exit", () => rmSync(home, { recursive: true, force: true }));
  return {
    other: new Cluster(accessBy(kubeconfig, home)),
    image: { repository, tag, pullPolicy: "IfNotPresent" },
    targets: [{ name: target, upstream, classes: [className], ports: [{ port: 80, protocol: "v1" }] }],
    target,
    className,
    kubeletRoot: env.E2E_KUBELET_ROOT ?? "/var/lib/kubelet",
  };
}

/**
 * All ingress controllers of the own node, each with the PROXY protocol version of its load balancer. Two options
 * show that the tests fail if the cure does not work: `npm run e2e -- --break no-proxy` leads names directly to the
 * ingress controllers, and `--break no-header` makes the proxy relay port 80 without a header.
 */
function ownTargets(broken: string): object[] {
  const protocolOf = (protocol: string, port: number) =>
    broken === "no-proxy" || (broken === "no-header" && port === 80) ? "none" : protocol;
  return [
    { balancer: NGINX, name: "ingress-nginx", className: "nginx" },
    { balancer: TRAEFIK, name: "traefik", className: "traefik" },
    { balancer: PLAIN, name: "plain", className: "plain" },
  ].map(({ balancer, name, className }) => ({
    name,
    upstream: { service: { namespace: balancer.namespace, name: balancer.service } },
    classes: [className],
    ports: [80, 443].map((port) => ({ port, protocol: protocolOf(balancer.protocol, port) })),
  }));
}
