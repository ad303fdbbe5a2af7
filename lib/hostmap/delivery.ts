import { show } from "./hostnames.ts";
import { VIA_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/** Name of the delivery by hostAliases. */
export const BY_HOSTS = "hosts";

interface EffectiveDelivery {
  readonly delivery: string;
  /** Set if the pod's label has an invalid value. The next level was used instead. */
  readonly problem?: Reason;
}

/** Returns the most specific value: the pod's label, else its namespace's label, else the setting `pods.via`. */
export function effectiveDelivery(values: {
  /** The pod's label. It may come from the pod template of the workload. */
  readonly pod: string | undefined;
  /** The namespace's label, if its value is valid. */
  readonly namespace: string | undefined;
  readonly fallback: string;
  /** Names of the deliveries other than hostAliases. */
  readonly others: readonly { readonly name: string }[];
}): EffectiveDelivery {
  const { pod, others } = values;
  const delivery = values.namespace ?? values.fallback;
  if (pod === undefined) return { delivery };
  if (pod === BY_HOSTS || others.some(({ name }) => name === pod)) return { delivery: pod };
  const accepted = [BY_HOSTS, ...others.map(({ name }) => name)].join(", ");
  const text = `the pod's label ${VIA_KEY} is ${show(pod)}; accepted are ${accepted}; it is ignored`;
  return { delivery, problem: { code: "via-invalid", text } };
}
