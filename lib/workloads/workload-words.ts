// How the state of a workload is called: by `switchback status` and by the dashboard.

interface Standing {
  readonly standing: "in-step" | "waiting" | "left" | "stuck";
  /** Pods that lack the current names. */
  readonly stale: number;
}

/** `stale` alone may mean that a restart is due, so a workload that cannot be restarted has another state. */
const STATES: Readonly<Record<Standing["standing"], string>> = {
  "in-step": "up to date",
  waiting: "stale",
  left: "stale (not restarted)",
  stuck: "stuck",
};

/** The state of a workload in words. */
export function stateText({ standing, stale }: Standing): string {
  return STATES[stale === 0 ? "in-step" : standing];
}

/** Some of its pods lack current names, and nothing changes that until somebody acts. */
export function isStuck({ standing, stale }: { readonly standing: string; readonly stale: number }): boolean {
  return standing === "stuck" && stale > 0;
}
