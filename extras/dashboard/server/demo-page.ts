import { known } from "#doctor/fact.ts";
import type { DemoPage } from "../../extension-points.ts";
import { dashboardFiles } from "./dashboard-files.ts";
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

/** Shows the demo as an installation. There is no cluster, so there is nothing to examine. */
export const showDemo: DemoPage["show"] = async ({ status, metrics, ownFiles, say }) => {
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
};
