import { type Delivery, effectiveDelivery } from "#hostmap/delivery.ts";
import { type Injection, planInjection } from "#hostmap/inject.ts";
import { planDnsInjection, withoutResolvers } from "#hostmap/inject-dns.ts";
import { HOSTS_KEY, INJECT_KEY, RESOLVERS_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import type { PodDnsSetup } from "#hostmap/pod-dns.ts";
import { MAX_WARNING } from "#hostmap/select-hosts.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { type AdmittedPod, isPod, readPod } from "./admitted-pod.ts";
import type { InjectionCache } from "./injection-cache.ts";
import { readResolution } from "./pod-resolution.ts";

/** What opted the pod in. The path of the request carries it. */
export type OptIn = "namespace" | "pod";

/** How pods get the names, apart from their own label. */
export interface DeliveryInput {
  /** By the namespace's label; the path of the request carries it. */
  readonly namespace: Delivery | undefined;
  /** `pods.via` of the configuration. */
  readonly fallback: Delivery;
  /** The resolvers of pod DNS, or why pods cannot be given them now. */
  readonly setup: PodDnsSetup | Reason;
}

/** Where pod DNS is not enabled. */
export const NO_POD_DNS: Reason = { code: "dns-not-enabled", text: "this install has no pod DNS (podDns.enabled)" };

const BY_HOSTS: DeliveryInput = { namespace: undefined, fallback: "hosts", setup: NO_POD_DNS };

/**
 * `injected`: the pod gets managed aliases. `injected-dns`: it gets the resolvers of pod DNS instead.
 * `nothing-chosen`: the selection matches no name, or the user's aliases already map all of them. The pod then gets
 * the annotations only, which distinguishes it from a pod that the webhook never saw.
 */
export type InjectionDecision =
  | {
      readonly inject: true;
      readonly code: "injected" | "injected-dns" | "nothing-chosen";
      readonly pod: AdmittedPod;
      readonly warnings: readonly Reason[];
      readonly injection: Injection;
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
  text: "no map of hostnames is loaded yet, so this pod gets none",
  warn: true,
} as const;

/** Decides whether and how a pod is injected. A pure function; `map` is undefined until one is loaded. */
export function decideInjection(
  request: AdmissionRequest,
  optIn: OptIn,
  map: InjectionCache | undefined,
  delivery: DeliveryInput = BY_HOSTS,
): InjectionDecision {
  const requestCheck = REQUEST_CHECKS.find((check) => check.applies(request));
  if (requestCheck !== undefined) return skip(requestCheck);
  const pod = readPod(request.object);
  if (!isPod(pod)) return skip({ ...pod, warn: true });
  const podCheck = POD_CHECKS.find((check) => check.applies({ pod, optIn }));
  if (podCheck !== undefined) return skip(podCheck);
  if (map === undefined) return NO_MAP;
  const wanted = effectiveDelivery({ ...delivery, pod: pod.labels[VIA_KEY] });
  const problems = wanted.problem === undefined ? [] : [shortened(wanted.problem)];
  if (wanted.delivery === "hosts" && pod.annotations[RESOLVERS_KEY] === undefined) {
    return byHosts({ pod, map, problems, injection: undefined });
  }
  const resolution = readResolution(request.object, pod, request.namespace ?? "");
  if ("code" in resolution) return skip({ ...resolution, warn: true });
  const restored = { dns: withoutResolvers(resolution) };
  if (wanted.delivery === "hosts") return byHosts({ pod, map, problems, injection: restored });
  const injection = planDnsInjection(resolution, delivery.setup);
  if ("code" in injection) return byHosts({ pod, map, problems: [...problems, injection], injection: restored });
  return { inject: true, code: "injected-dns", pod, warnings: problems, injection };
}

function byHosts({
  pod,
  map,
  problems,
  injection: more,
}: {
  readonly pod: AdmittedPod;
  readonly map: InjectionCache;
  readonly problems: readonly Reason[];
  /** What is added to the injection of the aliases. */
  readonly injection: Pick<Injection, "dns"> | undefined;
}): InjectionDecision {
  const selected = map.select(pod.annotations[HOSTS_KEY]);
  const injection = { ...planInjection(pod, selected, map.build), ...more };
  const code = injection.managed.aliases.length > 0 ? "injected" : "nothing-chosen";
  const warnings = problems.length === 0 ? selected.warnings : [...problems, ...selected.warnings];
  return { inject: true, code, pod, warnings, injection };
}

function shortened({ code, text }: Reason): Reason {
  return { code, text: text.slice(0, MAX_WARNING) };
}

function skip({ code, text, warn }: Reason & { readonly warn: boolean }): InjectionDecision {
  return { inject: false, code, text, warn };
}
