import type { Reason } from "#hostmap/types.ts";
import type { AddressHolder } from "./address-holders.ts";
import type { Installation } from "./installation.ts";

/** What an uninstall does with each workload that has hosts entries of Switchback. */
export interface UninstallPlan {
  readonly restart: readonly AddressHolder[];
  /** Holders of Switchback's addresses that a person has to recreate before the uninstall can finish. */
  readonly stuck: ReadonlyArray<{ readonly holder: AddressHolder; readonly reason: Reason }>;
  /** Workloads that were injected with addresses of others. They stay as they are. */
  readonly harmless: readonly AddressHolder[];
}

export function planUninstall(holders: readonly AddressHolder[], { restartNamespaces }: Installation): UninstallPlan {
  const classified = holders.map((holder) => ({ holder, reason: whyNotRestarted(holder, restartNamespaces) }));
  return {
    restart: classified.filter(({ reason }) => reason === undefined).map(({ holder }) => holder),
    stuck: classified.flatMap(({ holder, reason }) =>
      reason !== undefined && holder.addresses.length > 0 ? [{ holder, reason }] : [],
    ),
    harmless: classified
      .filter(({ holder, reason }) => reason !== undefined && holder.addresses.length === 0)
      .map(({ holder }) => holder),
  };
}

/**
 * Why an uninstall does not restart a workload. If the workload holds addresses of Switchback, the uninstall then
 * cannot finish until a person has recreated its pods. Undefined if it is restarted. `restart-holder.ts` adds the
 * reasons that only the workload itself shows.
 */
function whyNotRestarted(
  { kind, namespace, restartable }: AddressHolder,
  namespaces: ReadonlySet<string>,
): Reason | undefined {
  if (kind === "Pod") return { code: "not-restartable", text: "nothing recreates it: delete it" };
  if (!restartable) return { code: "not-restartable", text: `a ${kind} is not restarted: delete its pods` };
  if (namespaces.has(namespace)) return undefined;
  return {
    code: "restart-not-permitted",
    text: `${namespace} is not in restart.namespaces or optIn.namespaces: restart it`,
  };
}
