import { show } from "./hostnames.ts";
import { VIA_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/** How a new pod gets the names: `hosts` by hostAliases, `dns` by the resolvers of pod DNS. */
export type Delivery = "hosts" | "dns";

const DELIVERIES: readonly Delivery[] = ["hosts", "dns"];

interface EffectiveDelivery {
  readonly delivery: Delivery;
  /** The pod's label has an invalid value; the next level was used instead. */
  readonly problem?: Reason;
}

/** The most specific value wins: that of the pod's label, then of its namespace's, then of the install (`pods.via`). */
export function effectiveDelivery(values: {
  /** The pod's label, which it may have from its workload's template. */
  readonly pod: string | undefined;
  /** The namespace's label, if its value is valid. */
  readonly namespace: Delivery | undefined;
  readonly fallback: Delivery;
}): EffectiveDelivery {
  const delivery = values.namespace ?? values.fallback;
  if (values.pod === undefined) return { delivery };
  const own = DELIVERIES.find((known) => known === values.pod);
  if (own !== undefined) return { delivery: own };
  const accepted = DELIVERIES.join(", ");
  const text = `the pod's label ${VIA_KEY} is ${show(values.pod)}; accepted are ${accepted}; it is ignored`;
  return { delivery, problem: { code: "via-invalid", text } };
}
