import { show } from "./hostnames.ts";
import { ON_CHANGE_KEY } from "./metadata-keys.ts";
import type { Reason } from "./types.ts";

/**
 * How running pods follow the map: `restart` restarts their owner, `live` lets the agent edit their hosts files,
 * `none` does nothing.
 */
export type OnChange = "restart" | "live" | "none";

export const ON_CHANGE_VALUES: readonly OnChange[] = ["restart", "live", "none"];

/** The values of `switchback.dev/on-change` at each level. Undefined: missing or unknown. */
interface OnChangeValues {
  readonly pod: string | undefined;
  /**
   * The annotation of the Deployment, StatefulSet or DaemonSet itself. An annotation of its pod template is on the
   * pod.
   */
  readonly workload: string | undefined;
  readonly namespace: string | undefined;
  /** The default of the install: `pods.onChange`. */
  readonly fallback: OnChange;
}

export interface EffectiveOnChange {
  readonly mode: OnChange;
  /** The level that set the mode. */
  readonly from: "pod" | "workload" | "namespace" | "install";
  /** One reason per invalid value. The next level was used instead. */
  readonly problems: readonly Reason[];
}

const LEVELS = ["pod", "workload", "namespace"] as const;

/** Returns the most specific value: the pod's, else the workload's, else the namespace's, else the install's. */
export function effectiveOnChange(values: OnChangeValues): EffectiveOnChange {
  const problems: Reason[] = [];
  for (const level of LEVELS) {
    const value = values[level];
    if (value === undefined) continue;
    const mode = ON_CHANGE_VALUES.find((known) => known === value);
    if (mode !== undefined) return { mode, from: level, problems };
    problems.push(problem(level, value));
  }
  return { mode: values.fallback, from: "install", problems };
}

function problem(level: string, value: string): Reason {
  const accepted = ON_CHANGE_VALUES.join(", ");
  const text = `the ${level}'s ${ON_CHANGE_KEY} is ${show(value)}; accepted are ${accepted}; it is ignored`;
  return { code: "on-change-invalid", text };
}
