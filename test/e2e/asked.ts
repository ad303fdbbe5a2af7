import { foundName } from "#controller/targets/service-view.ts";
import type { PublishedService } from "../cluster/addons/load-balancers.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { frontAddress, leaderStatus, publishedMap } from "./switchback.ts";

// What tests wait for if the proxies ask the ingress controllers whether they expect a PROXY header.

/**
 * Time from a change of an ingress controller to the change of its names: 30 s until it is noticed, 20 s of equal
 * answers, and the pauses.
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
