import type { Reason } from "#hostmap/types.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import type { PublishedTargets } from "./targets-format.ts";
import { TARGETS_KEY, TARGETS_NAME } from "./targets-name.ts";

/**
 * Reads the published targets once. Returns a Reason if they do not parse, and undefined if the key is missing.
 * Rejects if the API server refuses. The format is loaded only if there is something to parse.
 */
export async function readTargets(
  client: Pick<KubeClient, "get">,
  namespace: string,
): Promise<PublishedTargets | Reason | undefined> {
  const path = corePath("configmaps", namespace, TARGETS_NAME);
  const text = (await client.get<{ data?: Readonly<Record<string, string>> }>(path)).data?.[TARGETS_KEY];
  if (text === undefined) return undefined;
  const { parseTargets } = await import("./targets-format.ts");
  return parseTargets(text);
}
