import type { FullStatus } from "#controller/status.ts";
import type { Fact } from "#doctor/fact.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { Components } from "./messages.ts";
import type { PodMetrics } from "./traffic.ts";

/**
 * Where the dashboard gets its data, with the rights of the person who runs it. Each call may fail, and the dashboard
 * goes on.
 */
export interface DashboardSource {
  /** Text for the page's head about the source: a context of a kubeconfig and the URL of its API server. */
  readonly place: string;
  /** The controller's whole status. */
  status(signal: AbortSignal): Promise<FullStatus>;
  /** The components; missing if the source does not know them. */
  components?(): Promise<Components>;
  /** The metrics of each replica that could be read, or why none could. */
  metrics?(): Promise<Fact<readonly PodMetrics[]>>;
  /** The doctor's findings; missing if there is no cluster to examine. */
  doctor?(): Promise<ReportDocument>;
}
