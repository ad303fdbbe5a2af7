import { TEST_HELM, TEST_KUBERNETES } from "./cluster/modules.ts";
import { KUBERNETES } from "./cluster/releases.ts";

/** The switches that choose versions, for `parseArgs`. */
export const VERSION_OPTIONS = { kubernetes: { type: "string" }, helm: { type: "string" } } as const;

export interface Versions {
  kubernetes?: string | undefined;
  helm?: string | undefined;
}

/**
 * Chooses versions for this process and those that it starts. Without a switch nothing changes.
 * @returns why these cannot be chosen
 */
export function chooseVersions({ kubernetes, helm }: Versions): string | undefined {
  if (kubernetes !== undefined && KUBERNETES[kubernetes] === undefined)
    return `--kubernetes ${kubernetes}: there are ${Object.keys(KUBERNETES).join(", ")}`;
  if (helm !== undefined && helm !== "3" && helm !== "4") return `--helm ${helm}: there are 3 and 4`;
  if (kubernetes === undefined && helm === undefined) return undefined;
  // Its programs have other versions.
  delete process.env.KUBEBUILDER_ASSETS;
  if (kubernetes !== undefined) process.env[TEST_KUBERNETES] = kubernetes;
  if (helm !== undefined) process.env[TEST_HELM] = helm;
  return undefined;
}
