import type { FullStatus } from "#controller/status.ts";
import { known } from "#doctor/fact.ts";
import { dashboardFiles, type OwnFiles } from "./dashboard-files.ts";
import type { Components } from "./messages.ts";
import { seriesIn } from "./metrics-text.ts";
import { startDashboard } from "./server.ts";
import type { DashboardSource } from "./source.ts";
import { isShown } from "./traffic.ts";

/** The components, which all run in the demo's process. */
const COMPONENTS: Components = {
  deployments: known(
    ["controller", "webhook", "proxy"].map((name) => {
      return { name: `switchback-${name}`, desired: 1, ready: 1, image: "in the demo's process", pullPolicy: "" };
    }),
  ),
  agents: known([]),
  upstreams: known([]),
  publishers: known([]),
};

interface DemoToShow {
  readonly status: () => FullStatus;
  /** Metrics of the demo's processes, in Prometheus' text format. */
  readonly metrics: () => Promise<readonly string[]>;
  readonly ownFiles: OwnFiles;
  readonly say: (line: string) => void;
}

/**
 * Shows the demo as an installation, on a page whose address it prints. There is no cluster, so there is nothing to
 * examine. Resolves to the function that stops it.
 */
export async function showDemo({ status, metrics, ownFiles, say }: DemoToShow): Promise<() => Promise<void>> {
  const source: DashboardSource = {
    place: "the demo on this machine",
    status: async () => status(),
    components: async () => COMPONENTS,
    metrics: async () => {
      const texts = await metrics();
      return known(texts.map((text, index) => ({ pod: `demo:${index}`, series: seriesIn(text, isShown) })));
    },
  };
  const { address, stop } = await startDashboard({ source, files: await dashboardFiles(ownFiles), port: 0 });
  say(`Dashboard on ${address}`);
  return stop;
}
