import type { Command } from "@commander-js/extra-typings";
import { type Definition, installationOptions, wholeNumber } from "./command.ts";
import { addedChecks } from "./extras.ts";
import { leaderStatus } from "./leader-status.ts";
import * as ownFiles from "./own-files.ts";
import { cureOfRefusal } from "./report-error.ts";

/** Defines `switchback dashboard`. */
export function define(command: Command, { context }: Definition): void {
  installationOptions(command)
    .option("--port <n>", "port of the page on loopback (default: a free one)", wholeNumber(65_535))
    .option("--no-open", "print the address without opening a browser")
    .action(async (flags) => {
      const { serveDashboard } = await import("#extras/dashboard/server/dashboard.ts");
      await serveDashboard(flags, {
        context,
        ownFiles,
        leaderStatus: async (client, installedIn, signal) => (await leaderStatus(client, { installedIn, signal })).full,
        addedChecks,
        cureOfRefusal,
      });
    });
}
