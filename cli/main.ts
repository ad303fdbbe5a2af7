#!/usr/bin/env node
import { Command, Option } from "commander";
import { describeError, hasCode } from "../errors/errors.ts";
import type { CliContext } from "./context.ts";

/** Exit codes: 1 for a failure, 2 for input that has to be mended first. */
const EXIT_FAILURE = 1;
const EXIT_BAD_INPUT = 2;

/** Each command is loaded when it is called: a webhook must not pay for what only the demo needs. */
function program(context: CliContext): Command {
  const root = new Command("switchback")
    .description("Maps a cluster's own public names to a PROXY-protocol-speaking relay inside opted-in pods.")
    .showHelpAfterError()
    .exitOverride();
  for (const [name, description] of [
    ["controller", "keep the map, the front Services and the certificates current"],
    ["webhook", "inject hostAliases into new pods that opted in"],
    ["proxy", "add the PROXY header and relay to the ingress controller"],
    ["agent", "keep the hosts files of one node's running pods current (as root, on that node)"],
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
    .description("print the configuration as a component reads it, from file, environment and flags (JSON)")
    .option("--config <file>", "configuration file (YAML)")
    .option("--set <path=value...>", "override one setting, such as log.level=debug")
    .action(async (flags) => (await import("./config.ts")).printConfig(flags, context));
  addTools(root, context);
  return root;
}

/** A command that talks to an API server: as whom, and where Switchback is. */
function onCluster(root: Command, name: string): Command {
  return root
    .command(name)
    .option("--namespace <name>", "namespace of Switchback", "switchback-system")
    .option("--kubeconfig <file>", "kubeconfig to use")
    .option("--context <name>", "context of the kubeconfig");
}

function addTools(root: Command, context: CliContext): void {
  root
    .command("demo")
    .description("show the whole idea on this machine: no cluster, no root")
    .argument("[directory]", "Kubernetes YAML to work on", "examples/demo")
    .option("--keep", "leave it running until Ctrl-C")
    .action(async (directory, flags) => (await import("./demo.ts")).demo({ directory, ...flags }, context));
  onCluster(root, "inject")
    .description("print workloads with their hostAliases, for GitOps without the webhook")
    .requiredOption("-f, --filename <file>", "YAML of pods and workloads; - for standard input")
    .option("--hosts <file>", "take the names from a hosts file instead of the live map")
    .option("--max-names <n>", "names a pod gets at most", Number)
    .option("--long-line", "allow lines that musl (Alpine) reads only 512 bytes of")
    .action(async (flags) => (await import("./inject.ts")).inject(flags, context));
  onCluster(root, "confirm")
    .description("let a held removal of more than half of the names happen")
    .option("--yes", "do not ask")
    .action(async (flags) => (await import("./confirm.ts")).confirm(flags, context));
  onCluster(root, "uninstall")
    .description(
      "free the cluster's pods from the addresses of Switchback, before it is removed; the chart's hooks run this",
    )
    .option("--check", "say what would happen, change nothing; fails while pods hold addresses of Switchback")
    .option("--remains", "delete what was made at run time, once the rest is removed")
    .option("--force", "go on although pods hold addresses of Switchback")
    .option("--timeout <seconds>", "how long restarts may take", Number, 240)
    .option("--yes", "do not ask")
    .action(async (flags) => (await import("./uninstall.ts")).uninstall(flags, context));
  addFollowing(root, context);
  addDoctor(root, context);
}

/** How running pods follow the map: to look at, and by hand. */
function addFollowing(root: Command, context: CliContext): void {
  onCluster(root, "status")
    .description(
      "every name with its target or why it has none, every opted-in workload and whether its pods are in step",
    )
    .addOption(new Option("-o, --output <form>", "what is printed").choices(["text", "json"]).default("text"))
    .option("--watch", "print it again whenever it changes, until Ctrl-C")
    .action(async (flags) => {
      process.exitCode = await (await import("./status.ts")).status(flags, context);
    });
  onCluster(root, "restart")
    .description("restart the workloads whose pods have not the current names, with your own rights")
    .argument("<namespace[/workload]>", "all of a namespace, or one")
    .option("--timeout <seconds>", "how long each rollout may take", Number, 300)
    .option("--yes", "do not ask")
    .action(async (what, flags) => {
      process.exitCode = await (await import("./restart.ts")).restart(what, flags, context);
    });
}

function addDoctor(root: Command, context: CliContext): void {
  onCluster(root, "doctor")
    .description("look at a cluster, installed or not, and say what is wrong and what cures it")
    .option("--probe", "run a short-lived pod that tries connections and looks names up")
    .option("--probe-namespace <name>", "where that pod, and a pod as a dry run, are made", "default")
    .option("--image <image>", "image of the probe pod; default: that of the installed proxy")
    .addOption(new Option("-o, --output <form>", "what is printed").choices(["text", "json"]).default("text"))
    .action(async (flags) => {
      process.exitCode = await (await import("./doctor.ts")).doctor(flags, context);
    });
  root
    .command("probe", { hidden: true })
    .argument("<plan>", "JSON, as `switchback doctor --probe` makes it")
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
  const shown = (error as { code?: string }).code?.startsWith("commander.") === true;
  // commander has printed its own message; help asked for is no failure.
  if (shown) return (error as { exitCode?: number }).exitCode === 0 ? 0 : EXIT_BAD_INPUT;
  // A line a fault of the configuration, as many as there are.
  const faults = hasCode(error, "config-invalid") && error.cause === undefined ? error.message.split("\n") : [];
  for (const line of faults.length > 1 ? faults : [describeError(error)]) context.stderr.write(`switchback: ${line}\n`);
  return hasCode(error, "config-invalid") || hasCode(error, "input-invalid") ? EXIT_BAD_INPUT : EXIT_FAILURE;
}

await main();
