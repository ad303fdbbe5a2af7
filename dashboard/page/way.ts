import type { NameStatus } from "../../controller/status.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { Summary } from "../messages.ts";

/** `broken` is where it ends, `beyond` what comes after that; `unknown`: nothing here says whether it works. */
export type StepState = "works" | "warning" | "broken" | "beyond" | "unknown";

/** A station of a request for a name, from the object that claims it to the ingress controller. */
export interface WayStep {
  readonly title: string;
  readonly values: readonly string[];
  readonly state: StepState;
  /** Why it is broken, or what to watch. */
  readonly reason?: Reason | undefined;
}

type Draft = Omit<WayStep, "state" | "reason"> & { readonly state?: "unknown" };

/** The way of a name as far as the status knows it. Pure. */
export function wayOf(name: NameStatus, summary: Pick<Summary, "targets">): WayStep[] {
  const target = summary.targets.find((each) => each.name === name.target);
  const relayed = target?.relayed ?? true;
  const ports = (target?.ports ?? []).map(({ port, protocol }) =>
    protocol === "none" ? String(port) : `${port}, PROXY ${protocol}`,
  );
  const drafts: Draft[] = [
    { title: name.from.kind, values: [name.from.file ?? `${name.from.namespace}/${name.from.name}`] },
    { title: "Target", values: name.target === undefined ? [] : [name.target] },
    { title: relayed ? "Front address" : "Address", values: name.addresses },
    ...(relayed ? [{ title: "Proxy", values: ports, state: "unknown" } as const] : []),
    { title: "Ingress controller", values: target?.upstream ? [target.upstream] : [], state: "unknown" },
  ];
  const broken = name.reason === undefined ? drafts.length : brokenAt(name);
  return drafts.map((draft, index) => stepOf(draft, index - broken, name, index === 2));
}

/** The policy refuses what the object claims; without a target or its address it ends there. */
function brokenAt({ reason, target }: NameStatus): number {
  if (target !== undefined) return 2;
  return reason?.code === "no-target" ? 1 : 0;
}

function stepOf(draft: Draft, fromBroken: number, { reason, warning }: NameStatus, isAddress: boolean): WayStep {
  if (fromBroken === 0) return { ...draft, state: "broken", reason };
  if (fromBroken > 0) return { ...draft, state: "beyond" };
  if (isAddress && warning !== undefined) return { ...draft, state: "warning", reason: warning };
  return { ...draft, state: draft.state ?? "works" };
}
