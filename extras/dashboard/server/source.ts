import type { FullStatus } from "#controller/status.ts";
import type { Fact } from "#doctor/fact.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { Components } from "./messages.ts";
import type { PodMetrics } from "./traffic.ts";

/**
 * What the dashboard asks, with the rights of the person who runs it. Each call may fail, and none is a reason to end.
 */
export interface DashboardSource {
  /** What is asked, for the page's head: a context of a kubeconfig and the URL of its API server. */
  readonly place: string;
  /** The controller's whole status. */
  status(signal: AbortSignal): Promise<FullStatus>;
  /** What runs; absent where nobody knows. */
  components?(): Promise<Components>;
  /** The metrics of each replica that could be read, or why none could. */
  metrics?(): Promise<Fact<readonly PodMetrics[]>>;
  /** The doctor's findings; absent where there is no cluster to examine. */
  doctor?(): Promise<ReportDocument>;
}
