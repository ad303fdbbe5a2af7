// Texts for the state of a workload, used by `switchback status` and the dashboard.

interface Standing {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** Pods that lack the current names. */
  readonly stale: number;
}

/** `stale` alone may mean that a restart is due. So a workload that cannot be restarted has its own state. */
const STATES: Readonly<Record<Standing["standing"], string>> = {
  "in-step": "up to date",
  waiting: "stale",
  left: "stale (not restarted)",
  stuck: "stuck",
};

/** Returns the state of a workload as text. */
export function stateText({ standing, stale }: Standing): string {
  return STATES[stale === 0 ? "in-step" : standing];
}

/** Whether some of its pods lack current names, and will do so until somebody acts. */
export function isStuck({ standing, stale }: { readonly standing: string; readonly stale: number }): boolean {
  return standing === "stuck" && stale > 0;
}
