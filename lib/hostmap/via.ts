import { show } from "./hostnames.ts";
import { VIA_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/** By what a new pod gets the names: `hosts` by hostAliases, `dns` by the resolvers of pod DNS. */
export type Via = "hosts" | "dns";

const VIAS: readonly Via[] = ["hosts", "dns"];

interface EffectiveVia {
  readonly via: Via;
  /** The pod's label has an invalid value; the next level was used instead. */
  readonly problem?: Reason;
}

/** The most specific value wins: that of the pod's label, then of its namespace's, then of the install (`pods.via`). */
export function effectiveVia(values: {
  /** The pod's label, which it may have from its workload's template. */
  readonly pod: string | undefined;
  /** The namespace's label, if its value is valid. */
  readonly namespace: Via | undefined;
  readonly fallback: Via;
}): EffectiveVia {
  const via = values.namespace ?? values.fallback;
  if (values.pod === undefined) return { via };
  const own = VIAS.find((known) => known === values.pod);
  if (own !== undefined) return { via: own };
  const text = `the pod's label ${VIA_KEY} is ${show(values.pod)}; accepted are ${VIAS.join(", ")}; it is ignored`;
  return { via, problem: { code: "via-invalid", text } };
}
