import { show } from "./hostnames.ts";
import { ON_CHANGE_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/** How running pods follow the map: their owner is restarted, the agent edits their hosts files, or nothing is done. */
export type OnChange = "restart" | "live" | "none";

export const ON_CHANGE_VALUES: readonly OnChange[] = ["restart", "live", "none"];

/** The values of `switchback.dev/on-change` where it may stand; undefined: no such annotation there, or it is not known. */
interface OnChangeWords {
  readonly pod: string | undefined;
  /** Of the Deployment, StatefulSet or DaemonSet itself; what its pod template says stands on the pod. */
  readonly workload: string | undefined;
  readonly namespace: string | undefined;
  /** The install's: `pods.onChange`. */
  readonly fallback: OnChange;
}

export interface EffectiveOnChange {
  readonly mode: OnChange;
  /** Whose word it is. */
  readonly from: "pod" | "workload" | "namespace" | "install";
  /** A word that is no mode, each; the next place was asked instead. */
  readonly problems: readonly Reason[];
}

const PLACES = ["pod", "workload", "namespace"] as const;

/** The nearest word wins: the pod's, then the workload's, the namespace's, the install's. */
export function effectiveOnChange(words: OnChangeWords): EffectiveOnChange {
  const problems: Reason[] = [];
  for (const place of PLACES) {
    const word = words[place];
    if (word === undefined) continue;
    const mode = ON_CHANGE_VALUES.find((value) => value === word);
    if (mode !== undefined) return { mode, from: place, problems };
    problems.push(problem(place, word));
  }
  return { mode: words.fallback, from: "install", problems };
}

function problem(place: string, word: string): Reason {
  const text = `the ${place}'s ${ON_CHANGE_KEY} is ${show(word)}; accepted are ${ON_CHANGE_VALUES.join(", ")}; it is passed over`;
  return { code: "on-change-invalid", text };
}
