import { INJECT_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/**
 * Annotation of the mirror pod of a static pod. The pod's hostAliases come from the file on the node, so a change of
 * the mirror has no effect.
 */
export const MIRROR_KEY = "kubernetes.io/config.mirror";

/** The configured rules for the opt-in of namespaces, by name. */
export interface OptInRules {
  /** Namespaces whose pods are never sent to the webhook, including Switchback's own. */
  readonly excluded: ReadonlySet<string>;
  /** `optIn.namespaces`: namespaces that opt in without a label. */
  readonly listed: ReadonlySet<string>;
}

/**
 * Whether a namespace opted in, by its name or its label `switchback.dev/inject`. The selectors of the webhook's
 * entries decide in the same way. `disabled` takes precedence over the list. An unknown value counts as no label.
 */
export function isNamespaceOptedIn(name: string, label: string | undefined, { excluded, listed }: OptInRules): boolean {
  if (excluded.has(name)) return false;
  return label === "enabled" || (label !== "disabled" && listed.has(name));
}

/** The metadata that decides whether a pod is injected. */
export interface OptInFacts {
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly namespaceLabels: Readonly<Record<string, string>>;
  readonly rules: OptInRules;
}

/** `code` is machine-readable (`namespace`, `pod`, or why not). `text` is the sentence for users. */
interface OptInDecision extends Reason {
  readonly optedIn: boolean;
}

interface Rule extends OptInDecision {
  readonly applies: (facts: OptInFacts) => boolean;
}

/**
 * The first rule that applies decides. The webhook's selectors and `webhook/injection-decision.ts` together decide in
 * the same way.
 */
const RULES: readonly Rule[] = [
  {
    optedIn: false,
    code: "namespace-excluded",
    text: "the pods of this namespace are never sent to the webhook",
    applies: ({ namespace, rules }) => rules.excluded.has(namespace),
  },
  {
    optedIn: false,
    code: "mirror-pod",
    text: "the pod mirrors a static pod, whose hostAliases come from its file on the node",
    applies: ({ annotations }) => Object.hasOwn(annotations, MIRROR_KEY),
  },
  {
    optedIn: false,
    code: "pod-disabled",
    text: `the pod's label ${INJECT_KEY} is disabled, and the pod's label wins`,
    applies: ({ labels }) => labels[INJECT_KEY] === "disabled",
  },
  {
    optedIn: true,
    code: "pod",
    text: `the pod's label ${INJECT_KEY} is enabled`,
    applies: ({ labels }) => labels[INJECT_KEY] === "enabled",
  },
  {
    optedIn: true,
    code: "namespace",
    text: `the namespace's label ${INJECT_KEY} is enabled, or optIn.namespaces lists the namespace`,
    applies: ({ namespace, namespaceLabels, rules }) =>
      isNamespaceOptedIn(namespace, namespaceLabels[INJECT_KEY], rules),
  },
];

const NOT_OPTED_IN: OptInDecision = {
  optedIn: false,
  code: "not-opted-in",
  text: `neither the pod nor its namespace opted in by the label ${INJECT_KEY} or by optIn.namespaces`,
};

/**
 * Whether a pod created with this metadata is injected. The API server and the webhook together decide in the same
 * way.
 */
export function decideOptIn(facts: OptInFacts): OptInDecision {
  const rule = RULES.find(({ applies }) => applies(facts));
  if (rule === undefined) return NOT_OPTED_IN;
  const { optedIn, code, text } = rule;
  return { optedIn, code, text };
}
