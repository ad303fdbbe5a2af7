import type { NameStatus } from "#controller/status.ts";
import { checkDeployment } from "#doctor/checks/deployments.ts";
import type { Fact } from "#doctor/fact.ts";
import type { Reason } from "#hostmap/types.ts";
import type { Components, MeasuredState, Summary } from "../server/messages.ts";

/** `broken`: the way ends here. `beyond`: after the broken step. `unknown`: no data here says whether it works. */
export type StepState = "works" | "warning" | "broken" | "beyond" | "unknown";

/** A step on the way of a request for a name, from the object that claims it to the ingress controller. */
export interface WayStep {
  readonly title: string;
  readonly values: readonly string[];
  readonly state: StepState;
  /** Why the step is broken, or what its warning is. */
  readonly reason?: Reason | undefined;
}

/** What the page knows in addition to the status. */
export interface Observed {
  readonly components: Components | undefined;
  readonly measured: Fact<MeasuredState> | undefined;
}

type Target = Summary["targets"][number];
type State = Pick<WayStep, "state" | "reason">;

const UNKNOWN: State = { state: "unknown" };
/** Deployments that may run the proxy. In the chart's profile `small`, one Deployment runs all components. */
const RELAYS: readonly string[] = ["switchback-proxy", "switchback-all"];

/** The way of a name, as far as it is known. Steps after the first broken one are not reached. Pure. */
export function wayOf(name: NameStatus, { targets }: Pick<Summary, "targets">, observed: Observed): WayStep[] {
  const target = targets.find((each) => each.name === name.target);
  const isRelayed = target?.relayed ?? true;
  const steps: WayStep[] = [
    {
      title: name.from.kind,
      values: [`${name.from.namespace}/${name.from.name}`],
      ...stateAt(name, "object"),
    },
    { title: "Target", values: name.target === undefined ? [] : [name.target], ...stateAt(name, "target") },
    { title: isRelayed ? "Front address" : "Address", values: name.addresses, ...stateAt(name, "address") },
    ...(isRelayed ? [{ title: "Proxy", values: portsOf(target), ...stateOfProxies(observed) }] : []),
    {
      title: "Ingress controller",
      values: target?.upstream ? [target.upstream] : [],
      ...stateOfUpstream(target, observed),
    },
  ];
  const broken = steps.findIndex(({ state }) => state === "broken");
  return steps.map((step, index) => (broken !== -1 && index > broken ? withoutReason(step) : step));
}

function withoutReason({ title, values }: WayStep): WayStep {
  return { title, values, state: "beyond" };
}

/**
 * State of one of the first three steps. A refused name with a target ends at the address. Without a target, it ends
 * at the target if the reason is `no-target`, else at the object.
 */
function stateAt({ reason, warning, target }: NameStatus, place: "object" | "target" | "address"): State {
  const brokenAt = target !== undefined ? "address" : reason?.code === "no-target" ? "target" : "object";
  if (reason !== undefined && brokenAt === place) return { state: "broken", reason };
  return place === "address" && warning !== undefined ? { state: "warning", reason: warning } : { state: "works" };
}

function portsOf(target: Target | undefined): string[] {
  return (target?.ports ?? []).map(({ port, protocol }) =>
    protocol === "none" ? String(port) : `${port}, PROXY ${protocol}`,
  );
}

function stateOfProxies({ components }: Observed): State {
  if (!components?.deployments.known) return UNKNOWN;
  const relay = components.deployments.value.find(({ name }) => RELAYS.includes(name));
  const { status, code, evidence } = checkDeployment("the proxy", relay, "nothing relays");
  if (status === "ok") return { state: "works" };
  return { state: status, reason: { code, text: evidence } };
}

/** State of the ingress controller, from its endpoints and the last dial of each proxy replica. */
function stateOfUpstream(target: Target | undefined, { components, measured }: Observed): State {
  if (target === undefined) return UNKNOWN;
  const endpoints = components?.upstreams.known
    ? components.upstreams.value.find(({ namespace, name }) => `${namespace}/${name}` === target.upstream)
    : undefined;
  if (endpoints?.ready === 0) {
    const text = `${target.upstream} has no endpoint that is ready`;
    return { state: "broken", reason: { code: "upstream-without-endpoints", text } };
  }
  const dials = measured?.known ? measured.value.upstreams.filter((each) => each.target === target.name) : [];
  const failing = dials.filter((each) => each.failing > 0);
  if (failing.length > 0) {
    const ports = failing.map((each) => `port ${each.port}: ${each.failing} of ${each.failing + each.good}`);
    const reason = {
      code: "dial-failing",
      text: `the last dial failed for replicas of the proxy (${ports.join("; ")})`,
    };
    return { state: failing.every(({ good }) => good === 0) ? "broken" : "warning", reason };
  }
  return dials.length > 0 || endpoints !== undefined ? { state: "works" } : UNKNOWN;
}
