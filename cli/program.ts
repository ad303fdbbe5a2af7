import type { Command as TypedCommand } from "@commander-js/extra-typings";
import { Command } from "commander";
import type { CommandLine } from "#extras/extension-points.ts";
import type { CliContext } from "#lib/process/context.ts";
import { type CommandFile, connectionOptions, type Definition, installationOptions, notEmpty } from "./command.ts";
import { addedChecks, EXTRAS } from "./extras.ts";
import { cureOfRefusal } from "./missing-rights.ts";
import { EXAMPLES, hasOwnFile, hasOwnFolder, ownFile } from "./own-files.ts";

/** Headings of the help, which shows them in the order in which the first command of each is added. */
const GROUPS = {
  look: "Find out:",
  change: "Change:",
  self: "This program:",
  component: "Components, which the chart starts:",
} as const;
type Group = keyof typeof GROUPS;

interface Entry {
  readonly group: Group;
  readonly description: string;
  /** Command lines at the end of the help, without `switchback`. A command without them is hidden. */
  readonly examples: readonly string[];
  /** Loads the command's file. A webhook must not load what only the demo needs. */
  readonly load: () => Promise<CommandFile>;
}

/** The commands, each with its own file. */
const COMMANDS: Readonly<Record<string, Entry>> = {
  doctor: {
    group: "look",
    description: "diagnose a cluster, with or without Switchback, and print findings with cures",
    examples: ["doctor", "doctor --probe", "doctor --from dump.yaml"],
    load: async () => await import("./doctor.ts"),
  },
  status: {
    group: "look",
    description:
      "show every name with its target or the reason it has none, and every opted-in workload with the state of " +
      "its pods",
    examples: ["status", "status -n cert-manager", "status --name '*.example.com' -o wide", "status --stuck -o name"],
    load: async () => await import("./status.ts"),
  },
  dump: {
    group: "look",
    description: "print what doctor and controller read of a cluster, without Secrets, for a report to others",
    examples: ["dump --redact > dump.yaml"],
    load: async () => await import("./dump.ts"),
  },
  demo: {
    group: "look",
    description: "show how Switchback works on this machine; needs no cluster and no root",
    examples: ["demo", "demo manifests/ --dashboard"],
    load: async () => await import("./demo.ts"),
  },
  inject: {
    group: "change",
    description:
      "add hostAliases to workloads in YAML or JSON files and print the result, for GitOps without the webhook",
    examples: ["inject deployment.yaml > injected.yaml", "inject -R deploy/ --hosts hosts.txt --strict"],
    load: async () => await import("./inject.ts"),
  },
  restart: {
    group: "change",
    description: "restart workloads whose pods lack the current names, with your own permissions",
    examples: ["restart cert-manager", "restart shop/deployment/web --yes"],
    load: async () => await import("./restart.ts"),
  },
  uninstall: {
    group: "change",
    description:
      "remove Switchback's addresses from the cluster's pods before you uninstall it; the chart's hooks run this",
    examples: ["uninstall --check", "uninstall --timeout 10m"],
    load: async () => await import("./uninstall.ts"),
  },
  completion: {
    group: "self",
    description: "print a script that completes commands and options: source <(switchback completion bash)",
    examples: ["completion bash", "completion fish | source"],
    load: async () => (await import("./completion.ts")).completion,
  },
  complete: {
    group: "self",
    description: "print the completions of a command line; the scripts of `completion` call it",
    examples: [],
    load: async () => (await import("./completion.ts")).complete,
  },
  "install-check": {
    group: "component",
    description: "wait until the API server calls the webhook; the chart's hook after an install runs this",
    examples: [],
    load: async () => await import("./install-check.ts"),
  },
  controller: component("controller", "keeps the map, the front Services and the certificates current"),
  webhook: component("webhook", "injects hostAliases into new opted-in pods"),
  proxy: component("proxy", "adds the PROXY header and relays to the ingress controller"),
  all: {
    ...component("all", ""),
    description: "run controller, webhook and proxy in one process, for small clusters",
  },
  config: {
    group: "component",
    description: "print the effective configuration from file and flags as JSON",
    examples: ["config --config switchback.yaml", "config --set log.level=debug"],
    load: async () => await import("./config.ts"),
  },
};

function component(name: "controller" | "webhook" | "proxy" | "all", does: string): Entry {
  return {
    group: "component",
    description: `run the ${name}: ${does}`,
    examples: [`${name} --config switchback.yaml`],
    load: async () => ({
      define: (command, { context }) => {
        componentOptions(command as unknown as Command).action(async (flags) =>
          (await import("./serve.ts")).serve(name, flags, context),
        );
      },
    }),
  };
}

/**
 * Creates the tree of commands. With `args`, only the command that they name gets its options: its file is loaded
 * then. `setExitCode` is called by commands whose outcome may be a finding.
 */
export async function createProgram(
  context: CliContext,
  setExitCode: (code: number) => void,
  args?: readonly string[],
): Promise<Command> {
  const root = new Command("switchback")
    .description(
      "Maps a cluster's own public hostnames, inside opted-in pods, to a relay that speaks the PROXY protocol.",
    )
    // Commander writes no errors: `run` reports them like all others.
    .configureOutput({ writeOut: context.stdout.write, writeErr() {} })
    // Lists only the names of commands: with their arguments, no width would be left for the descriptions.
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .exitOverride()
    .version(ownVersion(), "-V, --version", "print the version of this program");
  const definition: Definition = {
    context,
    version: ownVersion(),
    exit: async (running) => setExitCode((await running) ?? 0),
  };
  const [wanted] = args?.filter((arg) => arg !== "help") ?? [];
  const isWhole = args === undefined || wanted === "complete";
  for (const [name, { group, description, examples, load }] of Object.entries(COMMANDS)) {
    // The image contains neither the demo nor its examples.
    if (name === "demo" && !hasOwnFolder(EXAMPLES)) continue;
    const command = addCommand(root, name, group, examples).description(description);
    if (isWhole || name === wanted) (await load()).define(command as unknown as TypedCommand, definition);
  }
  root.commandsGroup(GROUPS.self).helpCommand("help [command]", "show the help of a command").commandsGroup("");
  const line = commandLine(root, context);
  for (const { addCommands } of EXTRAS) addCommands(line);
  return root;
}

/** Adds a command. Its help ends with the `examples`, which begin after `switchback`. Without them it is hidden. */
function addCommand(root: Command, name: string, group: Group, examples: readonly string[]): Command {
  const lines = examples.map((example) => `\n  switchback ${example}`);
  return root
    .command(name, { hidden: examples.length === 0 })
    .helpGroup(GROUPS[group])
    .addHelpText("after", `\nExamples:${lines.join("")}`);
}

/** Adds the options of a command that runs a component. */
function componentOptions(command: Command): Command {
  return command
    .option("--config <file>", "configuration file (YAML)", notEmpty)
    .option("--set <path=value...>", "override one setting, such as log.level=debug");
}

/** The functions with which extras add their commands. */
function commandLine(root: Command, context: CliContext): CommandLine {
  const addConnection = (command: Command) =>
    connectionOptions(command as unknown as TypedCommand) as unknown as Command;
  return {
    context,
    ownFiles: { ownFile, hasOwnFile, hasOwnFolder },
    addComponent: (name, ...examples) => componentOptions(addCommand(root, name, "component", examples)),
    addClusterCommand(name, ...examples) {
      const command = addCommand(root, name, "look", examples);
      installationOptions(command as unknown as TypedCommand);
      return command;
    },
    addConnection,
    agree: async (question) => (await import("./ask.ts")).agree(question),
    readConfig: async (flags) => (await (await import("./serve.ts")).readConfig(flags)).config,
    serve: async (name, load, flags) => (await import("./serve.ts")).serveStarter(name, load, flags, context),
    leaderStatus: async (client, namespace, signal) =>
      (await import("./leader-status.ts")).leaderStatus(client, namespace, {}, signal),
    cureOfRefusal,
    addedChecks,
  };
}

/** The version of this program. */
function ownVersion(): string {
  return JSON.parse(ownFile("package.json")).version;
}
