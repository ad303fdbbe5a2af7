import { BY_HOSTS, effectiveDelivery } from "#hostmap/delivery.ts";
import { type Injection, planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { type AdmittedPod, isPod, readPod } from "./admitted-pod.ts";
import type { Delivery, DeliveryChoice } from "./delivery.ts";
import type { InjectionCache } from "./injection-cache.ts";
import type { Operation } from "./json-patch.ts";

/** What opted the pod in. The path of the request carries it. */
export type OptIn = "namespace" | "pod";

const HOSTS_ONLY: DeliveryChoice = { fallback: BY_HOSTS, deliveries: [] };

/**
 * Codes of pods that get hostAliases; another delivery has its own code. `injected`: the pod gets managed aliases.
 * `nothing-chosen`: the selection matches no name, or the user's aliases already map all of them. The pod then gets
 * the annotations only, which distinguishes it from a pod that the webhook never saw.
 */
type HostAliasesCode = "injected" | "nothing-chosen";

/** Whether and how a pod is injected. */
export type InjectionDecision =
  | {
      readonly inject: true;
      readonly code: string;
      readonly pod: AdmittedPod;
      readonly warnings: readonly Reason[];
      readonly injection: Injection;
      /** Changes of the deliveries to the pod, in addition to the injection. */
      readonly changes: readonly Operation[];
    }
  | { readonly inject: false; readonly code: string; readonly text: string; readonly warn: boolean };

interface Check<T> extends Reason {
  readonly applies: (subject: T) => boolean;
  /** Whether this indicates a problem that the user should see. */
  readonly warn: boolean;
}

/** Requests that cannot be injected: the first check that applies decides. */
const REQUEST_CHECKS: ReadonlyArray<Check<AdmissionRequest>> = [
  {
    code: "not-a-pod",
    text: "the review is not about a Pod: check the rules of the MutatingWebhookConfiguration",
    warn: true,
    applies: ({ kind, subResource }) => kind.kind !== "Pod" || kind.group !== "" || Boolean(subResource),
  },
  {
    code: "not-create",
    text: "hostAliases can only be set while a pod is created",
    warn: false,
    applies: ({ operation }) => operation !== "CREATE",
  },
];

/** Pods that are not injected: the first check that applies decides. */
const POD_CHECKS: ReadonlyArray<Check<{ readonly pod: AdmittedPod; readonly optIn: OptIn }>> = [
  {
    code: "mirror-pod",
    text: "the pod mirrors a static pod, whose hostAliases come from its file on the node",
    warn: false,
    applies: ({ pod }) => Object.hasOwn(pod.annotations, MIRROR_KEY),
  },
  {
    code: "pod-disabled",
    text: `the pod's label ${INJECT_KEY} is disabled, and the pod's label wins`,
    warn: false,
    applies: ({ pod }) => pod.labels[INJECT_KEY] === "disabled",
  },
  {
    code: "not-opted-in",
    text: `the pod's label ${INJECT_KEY} is not enabled, and its namespace did not opt in`,
    warn: false,
    applies: ({ pod, optIn }) => optIn === "pod" && pod.labels[INJECT_KEY] !== "enabled",
  },
];

const NO_MAP = {
  inject: false,
  code: "no-map",
  text: "no hostname map is loaded yet, so this pod gets no names",
  warn: true,
} as const;

/** Decides whether and how a pod is injected. A pure function; `map` is undefined until one is loaded. */
export function decideInjection(
  request: AdmissionRequest,
  optIn: OptIn,
  map: InjectionCache | undefined,
  choice: DeliveryChoice = HOSTS_ONLY,
): InjectionDecision {
  const requestCheck = REQUEST_CHECKS.find((check) => check.applies(request));
  if (requestCheck !== undefined) return skip(requestCheck);
  const pod = readPod(request.object);
  if (!isPod(pod)) return skip({ ...pod, warn: true });
  const podCheck = POD_CHECKS.find((check) => check.applies({ pod, optIn }));
  if (podCheck !== undefined) return skip(podCheck);
  if (map === undefined) return NO_MAP;
  const { namespace, fallback, deliveries } = choice;
  const wanted = effectiveDelivery({ pod: pod.labels[VIA_KEY], namespace, fallback, others: deliveries });
  const problems = wanted.problem === undefined ? [] : [shortened(wanted.problem)];
  const concerned = deliveries.filter(({ name, annotation }) => {
    return name === wanted.delivery || pod.annotations[annotation] !== undefined;
  });
  if (concerned.length === 0) return byHosts(pod, map, problems, NO_CHANGES);
  return byDeliveries({ request, pod, map, problems, wanted: wanted.delivery }, concerned);
}

/** The decision about a pod that should get the names by one of `deliveries`, or may already have them by one. */
function byDeliveries(
  {
    request,
    pod,
    map,
    problems,
    wanted,
  }: {
    readonly request: AdmissionRequest;
    readonly pod: AdmittedPod;
    readonly map: InjectionCache;
    readonly problems: readonly Reason[];
    readonly wanted: string;
  },
  deliveries: readonly Delivery[],
): InjectionDecision {
  const instead: Reason[] = [];
  const changes: Operation[] = [];
  let by: { readonly code: string; readonly injection: Injection } | undefined;
  for (const delivery of deliveries) {
    const toPod = delivery.read(request.object, pod, request.namespace ?? "");
    if ("code" in toPod) return skip({ ...toPod, warn: true });
    const given = delivery.name === wanted ? toPod.give() : undefined;
    if (given !== undefined && "code" in given) instead.push(given);
    if (given === undefined || "code" in given) changes.push(...toPod.takeBack());
    else {
      changes.push(...given.changes);
      by = { code: delivery.code, injection: given.injection };
    }
  }
  if (by === undefined) return byHosts(pod, map, [...problems, ...instead], changes);
  return { inject: true, pod, warnings: problems, changes, ...by };
}

const NO_CHANGES: readonly Operation[] = [];

function byHosts(
  pod: AdmittedPod,
  map: InjectionCache,
  problems: readonly Reason[],
  changes: readonly Operation[],
): InjectionDecision {
  const selected = map.select(pod.annotations[HOSTS_KEY]);
  const injection = planInjection(pod, selected, map.build);
  const code: HostAliasesCode = injection.managed.aliases.length > 0 ? "injected" : "nothing-chosen";
  const warnings = problems.length === 0 ? selected.warnings : [...problems, ...selected.warnings];
  return { inject: true, code, pod, warnings, injection, changes };
}

function shortened({ code, text }: Reason): Reason {
  return { code, text: text.slice(0, MAX_WARNING) };
}

function skip({ code, text, warn }: Reason & { readonly warn: boolean }): InjectionDecision {
  return { inject: false, code, text, warn };
}
