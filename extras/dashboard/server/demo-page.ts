import type { DemoPage } from "../../extra.ts";
import { dashboardFiles } from "./dashboard-files.ts";
import { startDashboard } from "./server.ts";

/** Shows the demo's names: there is no cluster, so nothing else is read. */
export const showDemo: DemoPage["show"] = async ({ status, ownFiles, say }) => {
  const source = { place: "the demo on this machine", status: async () => status() };
  const { address, stop } = await startDashboard({ source, files: await dashboardFiles(ownFiles), port: 0 });
  say(`Dashboard on ${address}`);
  return stop;
};
