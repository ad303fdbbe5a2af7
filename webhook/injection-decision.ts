import { show } from "#hostmap/hostnames.ts";
import { type Injection, planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "#hostmap/opt-in.ts";
import { MAX_WARNING } from "#hostmap/pod-selection.ts";
import type { Reason } from "#hostmap/types.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { type AdmittedPod, readPod } from "./admitted-pod.ts";
import type { InjectionCache } from "./injection-cache.ts";
import { type Operation, patchOperations } from "./json-patch.ts";

/** What opted the pod in. The path of the request carries it. */
export type OptIn = "namespace" | "pod";

/** How pods get the names: values of the label `switchback.dev/via` and of `pods.via`. */
export const BY_HOSTS = "hosts";
const BY_DNS = "dns";

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

/** What happens to a pod. */
export interface Decision {
  /**
   * `injected`: the pod gets managed aliases. `nothing-chosen`: the selection matches no name, or the user's aliases
   * already map all of them; the annotations distinguish the pod from one that the webhook never saw. Pod DNS has its
   * own code. Others: why the pod is not injected.
   */
  readonly code: string;
  /** For the user who created the pod. */
  readonly warnings: readonly Reason[];
  /** Undefined: the pod is not injected. */
  readonly patch?: readonly Operation[];
}

/** Decides what happens to a pod. A pure function; `map` is undefined until one is loaded. */
export function decideInjection(
  request: AdmissionRequest,
  optIn: OptIn,
  map: InjectionCache | undefined,
  via: PodsVia = { fallback: BY_HOSTS },
): Decision {
  const { kind, operation, subResource } = request;
  if (request.flaw !== undefined) return skip("not-a-review", `the review cannot be read: ${request.flaw}`);
  if (kind.kind !== "Pod" || kind.group !== "" || subResource) return skip("not-a-pod", NOT_A_POD);
  // hostAliases can only be set while a pod is created.
  if (operation !== "CREATE") return skip("not-create");
  const pod = readPod(request.object);
  if (pod.flaw !== undefined) return skip("pod-malformed", `the pod cannot be read: ${pod.flaw}`);
  // The pod mirrors a static pod, whose hostAliases come from its file on the node.
  if (Object.hasOwn(pod.annotations, MIRROR_KEY)) return skip("mirror-pod");
  const label = pod.labels[INJECT_KEY];
  if (label === "disabled") return skip("pod-disabled");
  if (optIn === "pod" && label !== "enabled") return skip("not-opted-in");
  if (map === undefined) return skip("no-map", "no hostname map is loaded yet, so this pod gets no names");
  return inject(request, pod, map, via);
}

const NOT_A_POD = "the review is not about a Pod: check the rules of the MutatingWebhookConfiguration";

/** A pod that is not injected. `text`: what its user should know. */
export function skip(code: string, text?: string): Decision {
  return { code, warnings: text === undefined ? [] : [{ code, text: `switchback: ${text}` }] };
}

function inject(request: AdmissionRequest, pod: AdmittedPod, map: InjectionCache, via: PodsVia): Decision {
  const { namespace, fallback, podDns } = via;
  const accepted = deliveriesOf(via);
  const label = pod.labels[VIA_KEY];
  const isInvalid = label !== undefined && !accepted.includes(label);
  const problems = isInvalid ? [viaInvalid(label, accepted)] : [];
  const delivery = (isInvalid ? undefined : label) ?? namespace ?? fallback;
  const dns: PodDnsChange | Reason = podDns?.(request, pod, delivery === BY_DNS) ?? { changes: [] };
  if ("code" in dns) return skip(dns.code, dns.text);
  const { changes, given } = dns;
  if (given !== undefined)
    return { code: given.code, warnings: problems, patch: patchOperations(pod, given.injection, changes) };
  if (dns.problem !== undefined) problems.push(dns.problem);
  const selection = map.select(pod.annotations[HOSTS_KEY]);
  const injection = planInjection(pod.hostAliases, pod.annotations, selection, pod.pack);
  const code: "injected" | "nothing-chosen" = injection.managed.aliases.length > 0 ? "injected" : "nothing-chosen";
  const warnings = [...problems, ...selection.warnings];
  return { code, warnings, patch: patchOperations(pod, injection, changes) };
}

/** The ways in which this process gives pods the names. */
export function deliveriesOf({ podDns }: Pick<PodsVia, "podDns">): readonly string[] {
  return podDns === undefined ? [BY_HOSTS] : [BY_HOSTS, BY_DNS];
}

function viaInvalid(label: string, accepted: readonly string[]): Reason {
  const text = `the pod's label ${VIA_KEY} is ${show(label)}; accepted are ${accepted.join(", ")}; it is ignored`;
  return { code: "via-invalid", text: text.slice(0, MAX_WARNING) };
}
