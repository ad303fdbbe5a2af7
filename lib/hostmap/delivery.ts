import { show } from "./hostnames.ts";
import { VIA_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/** The name of the delivery by hostAliases. */
export const BY_HOSTS = "hosts";

interface EffectiveDelivery {
  readonly delivery: string;
  /** The pod's label has an invalid value; the next level was used instead. */
  readonly problem?: Reason;
}

/** The most specific value wins: that of the pod's label, then of its namespace's, then of the install (`pods.via`). */
export function effectiveDelivery(values: {
  /** The pod's label, which it may have from its workload's template. */
  readonly pod: string | undefined;
  /** The namespace's label, if its value is valid. */
  readonly namespace: string | undefined;
  readonly fallback: string;
  /** The names of those beside hostAliases. */
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
