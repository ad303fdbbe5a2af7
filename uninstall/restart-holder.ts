import { describeError, statusOf } from "../errors/errors.ts";
import { RESTARTED_KEY } from "../hostmap/metadata-keys.ts";
import type { Reason } from "../hostmap/types.ts";
import type { KubeClient } from "../kube/client.ts";
import { type WorkloadKind, workloadPath } from "../workloads/workload-kinds.ts";
import type { AddressHolder } from "./address-holders.ts";

const FIELD_MANAGER = "switchback-uninstall";

interface RawWorkload {
  readonly spec?: {
    readonly paused?: boolean;
    readonly updateStrategy?: { readonly type?: string };
    readonly template?: { readonly spec?: { readonly hostAliases?: ReadonlyArray<{ readonly ip: string }> } };
  };
}

/** As `kubectl rollout restart` does it, with a key of our own; of a kind that can be. @returns why it could not be, or would not help. */
export async function restartHolder(
  client: KubeClient,
  holder: AddressHolder,
  at: string,
): Promise<Reason | undefined> {
  const path = workloadPath(holder.namespace, holder.kind as WorkloadKind, holder.name);
  try {
    const { spec } = await client.get<RawWorkload>(path);
    const aliases = spec?.template?.spec?.hostAliases ?? [];
    if (aliases.some(({ ip }) => holder.addresses.includes(ip))) {
      return { code: "in-template", text: "its own template has them: take the hostAliases out of its manifest" };
    }
    if (spec?.paused) return { code: "paused", text: "its rollouts are paused: resume it" };
    if (spec?.updateStrategy?.type === "OnDelete") {
      return { code: "on-delete", text: "its update strategy is OnDelete: delete its pods" };
    }
    const annotations = { [RESTARTED_KEY]: at };
    await client.mergePatch(
      path,
      { spec: { template: { metadata: { annotations } } } },
      { fieldManager: FIELD_MANAGER },
    );
    return undefined;
  } catch (error) {
    // Its pods are on their way out with it.
    if (statusOf(error) === 404) return undefined;
    return { code: "restart-failed", text: `it could not be restarted: ${describeError(error)}` };
  }
}
