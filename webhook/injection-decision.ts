import { type Injection, planInjection } from "../hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY } from "../hostmap/metadata-keys.ts";
import { MIRROR_KEY } from "../hostmap/opt-in.ts";
import type { SelectedHosts } from "../hostmap/select-hosts.ts";
import type { Reason } from "../hostmap/types.ts";
import type { AdmissionRequest } from "./admission-review.ts";
import { type AdmittedPod, isPod, readPod } from "./admitted-pod.ts";
import type { InjectionCache } from "./injection-cache.ts";

/** What opted the pod in. The path of the request carries it. */
export type OptIn = "namespace" | "pod";

/**
 * `injected`: the pod gets managed aliases. `nothing-chosen`: the selection matches no name, or the user's aliases already map all
 * of them. The pod then gets the annotations only, which distinguishes it from a pod that the webhook never saw.
 */
export type InjectionDecision =
  | {
      readonly inject: true;
      readonly code: "injected" | "nothing-chosen";
      readonly pod: AdmittedPod;
      readonly selected: SelectedHosts;
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
): InjectionDecision {
  const requestCheck = REQUEST_CHECKS.find((check) => check.applies(request));
  if (requestCheck !== undefined) return skip(requestCheck);
  const pod = readPod(request.object);
  if (!isPod(pod)) return skip({ ...pod, warn: true });
  const podCheck = POD_CHECKS.find((check) => check.applies({ pod, optIn }));
  if (podCheck !== undefined) return skip(podCheck);
  if (map === undefined) return NO_MAP;
  const selected = map.select(pod.annotations[HOSTS_KEY]);
  const injection = planInjection(pod, selected, map.build);
  const code = injection.managed.aliases.length > 0 ? "injected" : "nothing-chosen";
  return { inject: true, code, pod, selected, injection };
}

function skip({ code, text, warn }: Reason & { readonly warn: boolean }): InjectionDecision {
  return { inject: false, code, text, warn };
}
