import { KUBERNETES, TEST_HELM, TEST_KUBERNETES } from "./cluster/modules.ts";

/** The switches that choose versions, for `parseArgs`. */
export const VERSION_OPTIONS = { kubernetes: { type: "string" }, helm: { type: "string" } } as const;

export interface Versions {
  kubernetes?: string | undefined;
  helm?: string | undefined;
}

/**
 * Chooses versions for this process and those that it starts. Without a switch, nothing changes.
 * @returns why the versions cannot be chosen; undefined if they can
 */
export function chooseVersions({ kubernetes, helm }: Versions): string | undefined {
  const minors = Object.keys(KUBERNETES);
  if (kubernetes !== undefined && !minors.includes(kubernetes))
    return `--kubernetes ${kubernetes}: unknown version; known: ${minors.join(", ")}`;
  if (helm !== undefined && helm !== "3" && helm !== "4") return `--helm ${helm}: unknown version; known: 3, 4`;
  if (kubernetes === undefined && helm === undefined) return undefined;
  if (kubernetes !== undefined) process.env[TEST_KUBERNETES] = kubernetes;
  if (helm !== undefined) process.env[TEST_HELM] = helm;
  return undefined;
}
