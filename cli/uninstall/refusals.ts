import type { Reason } from "#hostmap/types.ts";
import type { AddressHolder } from "./address-holders.ts";

/**
 * Why an uninstall does not restart a workload that holds addresses of Switchback, and so refuses to end until a
 * person has recreated its pods. Undefined: it is restarted. `restart-holder.ts` adds what only the workload itself
 * shows.
 */
export function whyNotRestarted(
  { kind, namespace, restartable }: AddressHolder,
  namespaces: ReadonlySet<string>,
): Reason | undefined {
  if (kind === "Pod") return { code: "bare-pod", text: "nothing recreates it: delete it" };
  if (!restartable) return { code: "not-restartable", text: `a ${kind} is not restarted: delete its pods` };
  if (namespaces.has(namespace)) return undefined;
  return { code: "restart-not-permitted", text: `${namespace} is not among restart.namespaces: restart it` };
}
