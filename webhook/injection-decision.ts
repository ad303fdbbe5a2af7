import { BY_HOSTS, effectiveDelivery } from "#hostmap/delivery.ts";
import { type Injection, planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { type AdmittedPod, readPod } from "./admitted-pod.ts";
import type { InjectionCache } from "./injection-cache.ts";
import type { Operation } from "./json-patch.ts";

/** What opted the pod in. The path of the request carries it. */
export type OptIn = "namespace" | "pod";

/** Name of pod DNS: a value of the label `switchback.dev/via` and of `pods.via`. */
export const BY_DNS = "dns";

/** How pods get the names if their own label does not decide. */
export interface PodsVia {
  /** The label of the pod's namespace. The path of the request carries it. */
  readonly namespace?: string | undefined;
  /** `pods.via` of the configuration. */
  readonly fallback: string;
  /** Undefined: this process has no pod DNS. */
  readonly podDns?: PodDns | undefined;
}

/**
 * What pod DNS does with a pod. `isWanted`: the pod should get the names by pod DNS. Otherwise pod DNS takes back what
 * an earlier pass gave the pod. Returns a reason if the pod cannot be read.
 */
export type PodDns = (request: AdmissionRequest, pod: AdmittedPod, isWanted: boolean) => PodDnsChange | Reason;

/** Changes of a pod for pod DNS. */
interface PodDnsChange {
  readonly changes: readonly Operation[];
  /** Set if the pod gets the names by pod DNS. Otherwise it gets hostAliases. */
  readonly given?: { readonly code: string; readonly injection: Injection };
  /** Why a pod that should get the names by pod DNS gets hostAliases. */
  readonly problem?: Reason;
}

/** Whether and how a pod is injected. */
export type InjectionDecision =
  | {
      readonly inject: true;
      /**
       * `injected`: the pod gets managed aliases. `nothing-chosen`: the selection matches no name, or the user's
       * aliases already map all of them; the annotations distinguish the pod from one that the webhook never saw. Pod
       * DNS has its own code.
       */
      readonly code: string;
      readonly pod: AdmittedPod;
      readonly warnings: readonly Reason[];
      readonly injection: Injection;
      /** Changes for pod DNS, in addition to the injection. */
      readonly changes: readonly Operation[];
    }
  | Skip;

interface Skip extends Reason {
  readonly inject: false;
  /** Whether this indicates a problem that the user should see. */
  readonly warn: boolean;
}

interface Subject {
  readonly request: AdmissionRequest;
  readonly optIn: OptIn;
  readonly pod: AdmittedPod;
  readonly map: InjectionCache | undefined;
}

interface Check {
  readonly code: string;
  readonly warn: boolean;
  /** Why the pod is not injected. False if the check does not hold. */
  readonly why: (subject: Subject) => string | false;
}

/** Why a pod is not injected: the first check that holds decides. A pod for which none holds is injected. */
const CHECKS: readonly Check[] = [
  {
    code: "not-a-pod",
    warn: true,
    why: ({ request: { kind, subResource } }) =>
      (kind.kind !== "Pod" || kind.group !== "" || Boolean(subResource)) &&
      "the review is not about a Pod: check the rules of the MutatingWebhookConfiguration",
  },
  {
    code: "not-create",
    warn: false,
    why: ({ request }) => request.operation !== "CREATE" && "hostAliases can only be set while a pod is created",
  },
  {
    code: "pod-malformed",
    warn: true,
    why: ({ pod }) => pod.flaw !== undefined && `the pod cannot be read: ${pod.flaw}`,
  },
  {
    code: "mirror-pod",
    warn: false,
    why: ({ pod }) =>
      Object.hasOwn(pod.annotations, MIRROR_KEY) &&
      "the pod mirrors a static pod, whose hostAliases come from its file on the node",
  },
  {
    code: "pod-disabled",
    warn: false,
    why: ({ pod }) =>
      pod.labels[INJECT_KEY] === "disabled" && `the pod's label ${INJECT_KEY} is disabled, and the pod's label wins`,
  },
  {
    code: "not-opted-in",
    warn: false,
    why: ({ pod, optIn }) =>
      optIn === "pod" &&
      pod.labels[INJECT_KEY] !== "enabled" &&
      `the pod's label ${INJECT_KEY} is not enabled, and its namespace did not opt in`,
  },
  {
    code: "no-map",
    warn: true,
    why: ({ map }) => map === undefined && "no hostname map is loaded yet, so this pod gets no names",
  },
];

/** Decides whether and how a pod is injected. A pure function; `map` is undefined until one is loaded. */
export function decideInjection(
  request: AdmissionRequest,
  optIn: OptIn,
  map: InjectionCache | undefined,
  via: PodsVia = { fallback: BY_HOSTS },
): InjectionDecision {
  const pod = readPod(request.object);
  const subject = { request, optIn, pod, map };
  for (const { code, warn, why } of CHECKS) {
    const text = why(subject);
    if (text !== false) return { inject: false, code, text, warn };
  }
  // The check `no-map` has passed.
  return inject(request, pod, map as InjectionCache, via);
}

function inject(request: AdmissionRequest, pod: AdmittedPod, map: InjectionCache, via: PodsVia): InjectionDecision {
  const { namespace, fallback, podDns } = via;
  const others = podDns === undefined ? [] : [{ name: BY_DNS }];
  const { delivery, problem } = effectiveDelivery({ pod: pod.labels[VIA_KEY], namespace, fallback, others });
  const problems = problem === undefined ? [] : [{ code: problem.code, text: problem.text.slice(0, MAX_WARNING) }];
  const dns = podDns?.(request, pod, delivery === BY_DNS) ?? UNCHANGED;
  if ("code" in dns) return { ...dns, inject: false, warn: true };
  const { changes, given } = dns;
  if (given !== undefined) return { inject: true, pod, warnings: problems, changes, ...given };
  if (dns.problem !== undefined) problems.push(dns.problem);
  const selection = map.select(pod.annotations[HOSTS_KEY]);
  const injection = planInjection(pod, selection);
  const code = injection.managed.aliases.length > 0 ? "injected" : "nothing-chosen";
  return { inject: true, code, pod, warnings: [...problems, ...selection.warnings], injection, changes };
}

const UNCHANGED: PodDnsChange = { changes: [] };
