import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import type { Reason } from "#hostmap/types.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import type { AddressHolder } from "./address-holders.ts";
import type { Installation } from "./installation.ts";
import type { UninstallPlan } from "./plan.ts";

/** Maximum number of pods to name per workload; the others are only counted. */
const MAX_NAMES = 5;

/** Describes what an uninstall would do, in order. */
export function describePlan(
  plan: UninstallPlan,
  { addresses, lastSteps }: Pick<Installation, "addresses" | "lastSteps">,
  namespace: string,
): string[] {
  const fronts = [...addresses].map(([address, service]) => `${address} (${service})`);
  return [
    `Addresses that the uninstall frees: ${fronts.join(", ") || "none"}`,
    `1. The webhook configuration ${WEBHOOK_CONFIGURATION} is deleted: new pods are no longer injected.`,
    `2. These are restarted: ${plan.restart.length === 0 ? "none" : ""}`.trimEnd(),
    ...plan.restart.map((holder) => `     ${describe(holder)}`),
    ...(plan.stuck.length === 0 ? [] : ["   These hold addresses of Switchback, and you have to recreate them:"]),
    ...plan.stuck.map(({ holder, reason }) => `     ${describe(holder)}: ${reason.text}`),
    ...(plan.harmless.length === 0 ? [] : ["   These keep names that have addresses of an ingress controller itself:"]),
    ...plan.harmless.map((holder) => `     ${describe(holder)}`),
    ...lastSteps.map((step, index) => `${index + 3}. ${step.plan}`),
    `${lastSteps.length + 3}. Controller, webhook and proxy, the front Services, the map, the certificates and the ` +
      "Lease are deleted.",
    `Left: the namespace ${namespace}.`,
  ];
}

/** Lists the workloads that still hold Switchback's addresses, and why. */
export function refusal(held: readonly AddressHolder[], reasons: ReadonlyMap<string, Reason>): string[] {
  const why = (holder: AddressHolder) =>
    reasons.get(workloadKey(holder))?.text ?? "it was restarted, but its old pods are still there";
  if (held.length === 0) return [];
  return ["still held:", ...held.map((holder) => `  ${describe(holder)}: ${why(holder)}`)];
}

/** Counts pods, such as `3 pods hold addresses`. */
export function countPods(held: readonly AddressHolder[]): string {
  const pods = held.reduce((sum, holder) => sum + holder.pods.length, 0);
  return pods === 1 ? "1 pod holds addresses" : `${pods} pods hold addresses`;
}

function describe(holder: AddressHolder): string {
  const { pods } = holder;
  if (holder.kind === "Pod") return workloadKey(holder);
  const more = pods.length > MAX_NAMES ? `, and ${pods.length - MAX_NAMES} more` : "";
  return `${workloadKey(holder)} (${pods.slice(0, MAX_NAMES).join(", ")}${more})`;
}
