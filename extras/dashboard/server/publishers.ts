import { type Fact, readFact } from "#doctor/fact.ts";
import { PUBLISHER_LABEL, parsePublisherState, STATE_KEY } from "#extras/publishers/publisher-state.ts";
import type { Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";

/** What a publisher reports about itself. */
export interface PublisherReport {
  readonly name: string;
  /** Where it writes. */
  readonly place: string;
  readonly names: number;
  readonly leftOut: number;
  /** When readers began to lack the newest map, milliseconds since 1970; undefined if they have it. */
  readonly behindSince: number | undefined;
  /** Why not everything is published, or why the report cannot be read. */
  readonly problem: Reason | undefined;
}

interface RawState {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** Reads the reports of the publishers. If a report cannot be read, its `problem` says why. */
export async function readPublishers(
  client: Pick<KubeClient, "list">,
  namespace: string,
): Promise<Fact<readonly PublisherReport[]>> {
  return await readFact({ verb: "list", resource: "configmaps", namespace }, async () => {
    const path = resourcePath({ version: "v1", namespace, resource: "configmaps" });
    const { items } = await client.list<RawState>(path, { labelSelector: PUBLISHER_LABEL });
    return items.map(({ metadata, data }) => {
      const name = metadata.labels?.[PUBLISHER_LABEL] ?? "";
      const state = parsePublisherState(data?.[STATE_KEY]);
      if ("code" in state) return { name, place: "", names: 0, leftOut: 0, behindSince: undefined, problem: state };
      const { place, names, leftOut, behindSince, problem } = state;
      return { name, place, names, leftOut, behindSince, problem };
    });
  });
}
