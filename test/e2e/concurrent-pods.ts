import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../cluster/addons/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { OPTED_IN } from "./opted-in.ts";
import { IMAGE_NAME, programCommand } from "./programs/run.ts";

const REVISION = "switchback.dev/revision";
const MADE = "made=meanwhile";

/** When to stop: as soon as `done` is true, or after `count` pods. */
type Until = { done: boolean } | { readonly count: number };

/**
 * Creates one pod after the other until it is stopped. Returns what `read` returns for each pod. By default, that is
 * its revision, or "" if it has none.
 */
export async function createPods(cluster: Cluster, until: Until, read = revisionOf): Promise<string[]> {
  const remove = () => cluster.kubectl("-n", OPTED_IN, "delete", "pods", "-l", MADE, "--now", "--ignore-not-found");
  await remove();
  const container = { name: "main", image: IMAGE_NAME, command: programCommand("resolve", "localhost") };
  const isDone = (made: number) => ("count" in until ? made >= until.count : until.done || made >= 1000);
  for (let n = 0; !isDone(n); n++) {
    await cluster.apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace: OPTED_IN, name: `meanwhile-${n}`, labels: { made: "meanwhile" } },
      spec: {
        restartPolicy: "Never",
        securityContext: RESTRICTED_POD,
        // The pod never runs. Only the API server's admission matters.
        nodeSelector: { "example.com/none": "true" },
        containers: [{ ...container, securityContext: RESTRICTED_CONTAINER }],
      },
    });
  }
  const made = (await getPods(cluster, MADE)).map(read);
  await remove();
  return made;
}

/** The revision in the annotation of the pod of `optIn`. */
export async function clientRevision(cluster: Cluster): Promise<string> {
  const [revision] = (await getPods(cluster, "app=client")).map(revisionOf);
  if (!revision) throw new Error("the client carries no revision");
  return revision;
}

export interface MadePod {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>>; readonly deletionTimestamp?: string };
  readonly spec: {
    readonly hostAliases?: ReadonlyArray<{ readonly ip: string; readonly hostnames: readonly string[] }>;
  };
}

function revisionOf({ metadata }: MadePod): string {
  return metadata.annotations?.[REVISION] ?? "";
}

async function getPods(cluster: Cluster, selector: string): Promise<MadePod[]> {
  const { items } = await cluster.get<{ items: MadePod[] }>("-n", OPTED_IN, "pods", "-l", selector);
  // A pod that is being deleted belongs to an earlier test.
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
}

/** The API server's counters of our webhooks' failures, one line each. */
export async function admissionCounts(cluster: Cluster): Promise<string[]> {
  const metrics = await cluster.kubectl("get", "--raw", "/metrics");
  return metrics
    .split("\n")
    .filter((line) => /^apiserver_admission_webhook_(fail_open_count|rejection_count)\{/.test(line))
    .filter((line) => line.includes("switchback"))
    .sort();
}
