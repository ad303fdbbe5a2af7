import { BlockList, isIP } from "node:net";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import { NOT_ENDED, podFacts, type RawPod } from "#lib/workloads/pods.ts";
import { type Fact, readFact } from "./fact.ts";
import type { CallerFacts } from "./facts.ts";
import { callsIn } from "./ingress-log.ts";

interface AddressedPod extends RawPod {
  readonly spec?: NonNullable<RawPod["spec"]> & { readonly hostNetwork?: boolean };
  readonly status?: { readonly phase?: string; readonly podIPs?: readonly { readonly ip: string }[] | null };
}

interface RawNode {
  readonly spec?: { readonly podCIDRs?: readonly string[] | null };
  readonly status?: { readonly addresses?: readonly { readonly type: string; readonly address: string }[] | null };
}

/**
 * Finds the workloads that called, from the ingress controller's log. Lists all pods and nodes to get their
 * addresses.
 */
export async function gatherCallers(client: KubeClient, log: string): Promise<Fact<CallerFacts>> {
  const pods = await readFact({ verb: "list", resource: "pods" }, async () => {
    const { items } = await client.list<AddressedPod>(corePath("pods"), { fieldSelector: NOT_ENDED });
    return items.filter(({ spec }) => spec?.hostNetwork !== true);
  });
  if (!pods.known) return pods;
  const nodes = await readFact({ verb: "list", resource: "nodes" }, async () => {
    return (await client.list<RawNode>(corePath("nodes"))).items;
  });
  if (!nodes.known) return nodes;
  return { known: true, value: callersOf(log, ownersOf(pods.value), nodeAddresses(nodes.value)) };
}

/** For each pod address, its workload as `namespace/Kind/name`. */
function ownersOf(pods: readonly AddressedPod[]): Map<string, string> {
  return new Map(
    pods.flatMap((pod) => {
      const { key } = ownerOf(podFacts(pod));
      return (pod.status?.podIPs ?? []).map(({ ip }): [string, string] => [ip, key]);
    }),
  );
}

/** The nodes' own addresses and pod ranges. A masqueraded connection comes from the node's address in its pod range. */
function nodeAddresses(nodes: readonly RawNode[]): BlockList {
  const all = new BlockList();
  for (const cidr of nodes.flatMap(({ spec }) => spec?.podCIDRs ?? [])) {
    const [net = "", length] = cidr.split("/");
    if (isIP(net) !== 0) all.addSubnet(net, Number(length), familyOf(net));
  }
  for (const { address } of nodes.flatMap(({ status }) => status?.addresses ?? []))
    if (isIP(address) !== 0) all.addAddress(address, familyOf(address));
  return all;
}

function familyOf(address: string): "ipv4" | "ipv6" {
  return isIP(address) === 6 ? "ipv6" : "ipv4";
}

function callersOf(log: string, owners: ReadonlyMap<string, string>, nodes: BlockList): CallerFacts {
  const calls = callsIn(log);
  const counts = new Map<string, number>();
  let [refusals, masqueraded, selfChecks] = [0, 0, 0];
  for (const { client, refused, challenge } of calls) {
    const owner = owners.get(client);
    const inside = owner !== undefined || (refused && nodes.check(client, familyOf(client)));
    if (!inside) continue;
    if (refused) refusals++;
    if (challenge) selfChecks++;
    else if (owner === undefined) masqueraded++;
    else counts.set(owner, (counts.get(owner) ?? 0) + 1);
  }
  const workloads = [...counts].map(([owner, number]) => ({ owner, calls: number }));
  workloads.sort((a, b) => b.calls - a.calls || (a.owner < b.owner ? -1 : 1));
  return { workloads, refused: refusals, masqueraded, selfChecks, total: calls.length };
}
