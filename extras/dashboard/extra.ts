import { InvalidArgumentError } from "commander";
import type { Extra } from "../extension-points.ts";

/** Folder of the page: it has the sources in a checkout, and the built files in a released command. */
const PAGE = "extras/dashboard/page";

export const dashboard: Extra = {
  addCommands(line) {
    // The image does not contain the page, which is for a person's own machine.
    if (!line.ownFiles.hasOwnFolder(PAGE)) return;
    line
      .addClusterCommand("dashboard", "dashboard", "dashboard --port 8080 --no-open")
      .description(
        "show the cluster's names, workloads and findings on a page of this machine, with your own permissions",
      )
      .option("--port <n>", "port of the page on loopback (default: a free one)", portNumber)
      .option("--no-open", "print the address without opening a browser")
      .action(async (flags) => (await import("./server/dashboard.ts")).serveDashboard(flags, line));
  },
};

/** A TCP port. Throws commander's InvalidArgumentError, which names the option, the value and what is accepted. */
function portNumber(value: string): number {
  const port = Number(value);
  if (/^\d{1,5}$/.test(value) && port > 0 && port < 65_536) return port;
  throw new InvalidArgumentError("Expected a port, 1 to 65535.");
}
