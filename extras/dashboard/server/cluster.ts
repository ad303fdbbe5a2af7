import type { FullStatus } from "#controller/status.ts";
import { type AddedChecks, readUpdaters } from "#doctor/added-checks.ts";
import { type Fact, known, readFact } from "#doctor/fact.ts";
import type { ObjectName } from "#doctor/facts.ts";
import { gatherEndpoints } from "#doctor/gather-cluster.ts";
import { gatherConfig, gatherDeployments } from "#doctor/gather-install.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { endpointSlicesOf, podsBehind, type RawEndpointSlice } from "#lib/kube/endpoints.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { Components } from "./messages.ts";
import { seriesIn } from "./metrics-text.ts";
import { readPublishers } from "./publishers.ts";
import { isShown, type PodMetrics } from "./traffic.ts";

/** Services of the components whose metrics are shown, each with the name of its metrics port. */
const MEASURED = [
  ["switchback-controller", "http"],
  ["switchback-webhook", "metrics"],
  ["switchback-proxy", "metrics"],
] as const;
/** Maximum size of a replica's metrics. With 1,000 targets, a proxy has 1 MB of metrics. */
const MAX_BYTES = 8 * 1024 * 1024;

/** Reads the components. `status`: the last status that is known, which has the targets. */
export async function readComponents(
  client: KubeClient,
  namespace: string,
  { sections, checks }: AddedChecks,
  status: Pick<FullStatus, "targets"> | undefined,
): Promise<Components> {
  const read = await gatherConfig(client, namespace, sections);
  const config = read.known ? read.value : undefined;
  const [deployments, agents, upstreams, publishers] = await Promise.all([
    gatherDeployments(client, namespace),
    readUpdaters(checks, { client, namespace, config, now: Date.now() }),
    gatherEndpoints(client, servicesOf(status)),
    readPublishers(client, namespace),
  ]);
  return { deployments, agents, upstreams, publishers };
}

/** The Services among the upstreams; the others are hosts. */
function servicesOf(status: Pick<FullStatus, "targets"> | undefined): ObjectName[] {
  return (status?.targets ?? []).flatMap(({ upstream }) => {
    const [namespace = "", name = "", ...more] = upstream.split("/");
    return namespace !== "" && name !== "" && more.length === 0 ? [{ namespace, name }] : [];
  });
}

/** Reads the metrics of each replica, through the API server. A replica that does not answer is left out. */
export async function readMetrics(client: KubeClient, namespace: string): Promise<Fact<readonly PodMetrics[]>> {
  const right = { verb: "list", resource: "endpointslices.discovery.k8s.io", namespace };
  const places = await readFact(right, async () => await replicasIn(client, namespace));
  if (!places.known) return places;
  const read = await Promise.all(
    places.value.map((place) => {
      const proxied = { verb: "get", resource: "pods/proxy", namespace };
      return readFact(proxied, async (): Promise<PodMetrics> => {
        const path = resourcePath({ version: "v1", namespace, resource: "pods", name: place, subresource: "proxy" });
        const { text } = await client.raw(`${path}/metrics`, { maxBytes: MAX_BYTES });
        return { pod: place, series: seriesIn(text, isShown) };
      });
    }),
  );
  const good = read.flatMap((fact) => (fact.known ? [fact.value] : []));
  const [failed] = read.flatMap((fact) => (fact.known ? [] : [fact]));
  return good.length === 0 && failed !== undefined ? failed : known(good);
}

/** `pod:port` of each replica, without duplicates: in profile `small`, a pod has three such ports. */
async function replicasIn(client: KubeClient, namespace: string): Promise<readonly string[]> {
  const lists = MEASURED.map(async ([service, portName]) => {
    const { path, labelSelector } = endpointSlicesOf(namespace, service);
    const { items } = await client.list<RawEndpointSlice>(path, { labelSelector });
    return items.flatMap((slice) => podsBehind(slice, portName));
  });
  const replicas = (await Promise.all(lists)).flat();
  return [...new Set(replicas.map(({ pod, port }) => `${pod}:${port}`))];
}
