import type { Reason } from "#hostmap/types.ts";
import type { AddressHolder } from "./address-holders.ts";
import type { Installation } from "./installation.ts";
import { whyNotRestarted } from "./refusals.ts";

/** What an uninstall does about each workload that has hosts entries of Switchback. */
export interface UninstallPlan {
  readonly restart: readonly AddressHolder[];
  /** Holders of Switchback's addresses that a person has to recreate before the uninstall can end. */
  readonly stuck: ReadonlyArray<{ readonly holder: AddressHolder; readonly reason: Reason }>;
  /** Injected, but with addresses of others: they stay as they are. */
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
