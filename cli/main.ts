#!/usr/bin/env node
import { Command, Option } from "commander";
import { describeError, hasCode } from "../errors/errors.ts";
import type { CliContext } from "./context.ts";

/** Exit codes: 1 for a failure, 2 for invalid input. */
const EXIT_FAILURE = 1;
const EXIT_BAD_INPUT = 2;

/** Loads each command's module when it runs: a webhook must not pay for what only the demo needs. */
function program(context: CliContext): Command {
  const root = new Command("switchback")
    .description(
      "Maps a cluster's own public hostnames, inside opted-in pods, to a relay that speaks the PROXY protocol.",
    )
    .showHelpAfterError()
    .exitOverride();
  for (const [name, description] of [
    ["controller", "run the controller: keeps the map, the front Services and the certificates current"],
    ["webhook", "run the webhook: injects hostAliases into new opted-in pods"],
    ["proxy", "run the proxy: adds the PROXY header and relays to the ingress controller"],
    ["agent", "run the agent: keeps the hosts files of one node's running pods current (as root, on that node)"],
  ] as const) {
    root
      .command(name)
      .description(description)
      .option("--config <file>", "configuration file (YAML)")
      .option("--set <path=value...>", "override one setting, such as log.level=debug")
      .action(async (flags) => (await import("./serve.ts")).serve(name, flags, context));
  }
  root
    .command("config")
    .description("print the effective configuration from file, environment and flags as JSON")
    .option("--config <file>", "configuration file (YAML)")
    .option("--set <path=value...>", "override one setting, such as log.level=debug")
    .action(async (flags) => (await import("./config.ts")).printConfig(flags, context));
  addTools(root, context);
  return root;
}

/** Adds a command that talks to an API server, with the flags for credentials and namespace. */
function addClusterCommand(root: Command, name: string): Command {
  return root
    .command(name)
    .option("--namespace <name>", "namespace that Switchback is installed in", "switchback-system")
    .option("--kubeconfig <file>", "path to the kubeconfig file")
    .option("--context <name>", "kubeconfig context to use");
}

function addTools(root: Command, context: CliContext): void {
  root
    .command("demo")
    .description("show how Switchback works on this machine; needs no cluster and no root")
    .argument("[directory]", "directory with Kubernetes YAML", "examples/demo")
    .option("--keep", "keep running until Ctrl-C")
    .action(async (directory, flags) => (await import("./demo.ts")).demo({ directory, ...flags }, context));
  addClusterCommand(root, "inject")
    .description("add hostAliases to workloads in a YAML file and print the result, for GitOps without the webhook")
    .requiredOption("-f, --filename <file>", "YAML file with pods and workloads; - for standard input")
    .option("--hosts <file>", "read the names from a hosts file instead of the published map")
    .option("--max-names <n>", "maximum number of names per pod", Number)
    .option("--long-line", "allow lines over 480 bytes; musl (Alpine) reads only 512 bytes of a line")
    .action(async (flags) => (await import("./inject.ts")).inject(flags, context));
  addClusterCommand(root, "confirm")
    .description("confirm a held removal of more than half of the names")
    .option("--yes", "skip the confirmation prompt")
    .action(async (flags) => (await import("./confirm.ts")).confirm(flags, context));
  addClusterCommand(root, "uninstall")
    .description(
      "remove Switchback's addresses from the cluster's pods before it is uninstalled; the chart's hooks run this",
    )
    .option("--check", "print the plan without changing anything; fails while pods hold addresses of Switchback")
    .option("--remains", "delete the objects created at run time, after the rest is uninstalled")
    .option("--force", "continue even if pods hold addresses of Switchback")
    .option("--timeout <seconds>", "time limit for restarts", Number, 240)
    .option("--yes", "skip the confirmation prompt")
    .action(async (flags) => (await import("./uninstall.ts")).uninstall(flags, context));
  addWorkloadCommands(root, context);
  addDoctor(root, context);
}

/** Commands that show how running pods follow the map, and restart them by hand. */
function addWorkloadCommands(root: Command, context: CliContext): void {
  addClusterCommand(root, "status")
    .description(
      "show every name with its target or the reason it has none, and every opted-in workload with the state of its pods",
    )
    .addOption(new Option("-o, --output <format>", "output format").choices(["text", "json"]).default("text"))
    .option("--watch", "print the status again whenever it changes, until Ctrl-C")
    .action(async (flags) => {
      process.exitCode = await (await import("./status.ts")).status(flags, context);
    });
  addClusterCommand(root, "restart")
    .description("restart workloads whose pods lack the current names, with your own permissions")
    .argument("<namespace[/workload]>", "a namespace, or one workload in it")
    .option("--timeout <seconds>", "time limit for each rollout", Number, 300)
    .option("--yes", "skip the confirmation prompt")
    .action(async (what, flags) => {
      process.exitCode = await (await import("./restart.ts")).restart(what, flags, context);
    });
}

function addDoctor(root: Command, context: CliContext): void {
  addClusterCommand(root, "doctor")
    .description("diagnose a cluster, with or without Switchback, and print findings with cures")
    .option("--probe", "run a short-lived pod that tests connections and resolves names")
    .option("--probe-namespace <name>", "namespace for the probe pod and for the dry-run pod", "default")
    .option("--image <image>", "image of the probe pod (default: the installed proxy's image)")
    .addOption(new Option("-o, --output <format>", "output format").choices(["text", "json"]).default("text"))
    .action(async (flags) => {
      process.exitCode = await (await import("./doctor.ts")).doctor(flags, context);
    });
  root
    .command("probe", { hidden: true })
    .argument("<plan>", "JSON plan from `switchback doctor --probe`")
    .action(async (plan) => (await import("./probe.ts")).probe(plan, context));
}

async function main(): Promise<void> {
  const context: CliContext = { env: process.env, stdout: process.stdout, stderr: process.stderr };
  try {
    await program(context).parseAsync(process.argv);
  } catch (error) {
    process.exitCode = exitCodeOf(error, context);
  }
}

function exitCodeOf(error: unknown, context: CliContext): number {
  const printed = (error as { code?: string }).code?.startsWith("commander.") === true;
  // commander has printed its own message. `--help` is not a failure.
  if (printed) return (error as { exitCode?: number }).exitCode === 0 ? 0 : EXIT_BAD_INPUT;
  // A configuration error has one line per fault.
  const faults = hasCode(error, "config-invalid") && error.cause === undefined ? error.message.split("\n") : [];
  for (const line of faults.length > 1 ? faults : [describeError(error)]) context.stderr.write(`switchback: ${line}\n`);
  return hasCode(error, "config-invalid") || hasCode(error, "input-invalid") ? EXIT_BAD_INPUT : EXIT_FAILURE;
}

await main();
