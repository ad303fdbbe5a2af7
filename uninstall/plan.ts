import type { Reason } from "../hostmap/types.ts";
import type { AddressHolder } from "./address-holders.ts";
import type { Installation } from "./installation.ts";

/** What leaving does about each workload that has something of ours. */
export interface UninstallPlan {
  readonly restart: readonly AddressHolder[];
  /** Holders of our addresses that others have to make anew; without them nothing ends. */
  readonly stuck: ReadonlyArray<{ readonly holder: AddressHolder; readonly reason: Reason }>;
  /** Injected, but with addresses that are not ours: they go on as they are. */
  readonly harmless: readonly AddressHolder[];
}

export function planUninstall(holders: readonly AddressHolder[], { restartNamespaces }: Installation): UninstallPlan {
  const judged = holders.map((holder) => ({ holder, reason: whyNotRestarted(holder, restartNamespaces) }));
  return {
    restart: judged.filter(({ reason }) => reason === undefined).map(({ holder }) => holder),
    stuck: judged.flatMap(({ holder, reason }) =>
      reason !== undefined && holder.addresses.length > 0 ? [{ holder, reason }] : [],
    ),
    harmless: judged
      .filter(({ holder, reason }) => reason !== undefined && holder.addresses.length === 0)
      .map(({ holder }) => holder),
  };
}

function whyNotRestarted(
  { kind, namespace, restartable }: AddressHolder,
  namespaces: ReadonlySet<string>,
): Reason | undefined {
  if (kind === "Pod") return { code: "bare-pod", text: "nothing makes it anew: delete it" };
  if (!restartable) return { code: "not-restartable", text: `a ${kind} is not restarted: delete its pods` };
  if (namespaces.has(namespace)) return undefined;
  return { code: "restart-not-permitted", text: `${namespace} is not among restart.namespaces: restart it` };
}
