import type { Command as TypedCommand } from "@commander-js/extra-typings";
import { Command } from "commander";
import type { CliContext } from "#lib/process/context.ts";
import type { Starter } from "#lib/process/running.ts";
import { type CommandFile, configOptions, type Definition } from "./command.ts";
import * as ownFiles from "./own-files.ts";

interface Entry {
  readonly description: string;
  /** Arguments of the examples at the end of the help. A command without examples is hidden. */
  readonly examples: readonly string[];
  /** A folder that the image does not contain. Without it there is no such command. */
  readonly needs?: string;
  /** Loads the command's file. A webhook must not load what only the demo needs. */
  readonly load: () => Promise<CommandFile>;
}

const SELF = "This program:";
/** The commands, by the headings of the help. Each has its own file. */
const COMMANDS: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  "Find out:": {
    doctor: {
      description: "diagnose a cluster, with or without Switchback, and print findings with cures",
      examples: ["", "--probe", "--from dump.yaml"],
      load: async () => await import("./doctor.ts"),
    },
    status: {
      description: "show each name with its target or the reason it has none, and each opted-in workload with its pods",
      examples: ["", "-n cert-manager", "--name '*.example.com' -o yaml", "--stuck -o name"],
      load: async () => await import("./status.ts"),
    },
    dump: {
      description: "print what doctor and controller read of a cluster, without Secrets, for a report to others",
      examples: ["--redact > dump.yaml"],
      load: async () => await import("./dump.ts"),
    },
    demo: {
      description: "show how Switchback works on this machine; needs no cluster and no root",
      examples: ["", "--dashboard"],
      needs: ownFiles.EXAMPLES,
      load: async () => await import("./demo.ts"),
    },
    dashboard: {
      description: "show the cluster's names, workloads and findings on a page, with your own permissions",
      examples: ["", "--port 8080 --no-open"],
      needs: "extras/dashboard/page",
      load: async () => await import("./dashboard.ts"),
    },
  },
  "Change:": {
    inject: {
      description: "print YAML or JSON files with hostAliases in their workloads, for GitOps without the webhook",
      examples: ["deployment.yaml > injected.yaml", "-R deploy/ --hosts hosts.txt --strict"],
      load: async () => await import("./inject.ts"),
    },
    restart: {
      description: "restart workloads whose pods lack the current names, with your own permissions",
      examples: ["shop/deployment/web --yes", "cert-manager"],
      load: async () => await import("./restart.ts"),
    },
    uninstall: {
      description:
        "remove Switchback's addresses from the cluster's pods before an uninstall; the chart's hooks run this",
      examples: ["--check", "--timeout 10m"],
      load: async () => await import("./uninstall.ts"),
    },
  },
  [SELF]: {
    completion: {
      description: "print a script that completes commands and options: source <(switchback completion bash)",
      examples: ["bash", "fish | source"],
      load: async () => (await import("./completion.ts")).completion,
    },
    complete: {
      description: "print the completions of a command line; the scripts of `completion` call it",
      examples: [],
      load: async () => (await import("./completion.ts")).complete,
    },
  },
  "Components, which the chart starts:": {
    "install-check": {
      description: "wait until the API server calls the webhook; the chart's hook after an install runs this",
      examples: [],
      load: async () => await import("./install-check.ts"),
    },
    controller: component(
      "run the controller: keeps the map, the front Services and the certificates current",
      async () => (await import("./components/controller.ts")).startController,
    ),
    webhook: component(
      "run the webhook: injects hostAliases into new opted-in pods",
      async () => (await import("./components/webhook.ts")).startWebhook,
    ),
    proxy: component(
      "run the proxy: adds the PROXY header and relays to the ingress controller",
      async () => (await import("./components/proxy.ts")).startProxy,
    ),
    all: component(
      "run controller, webhook and proxy in one process, for small clusters",
      async () => (await import("./components/all.ts")).startAll,
    ),
    agent: component(
      "run the agent: keeps the hosts files of one node's running pods current (as root, on that node)",
      async () => (await import("#extras/agent/start.ts")).startAgent,
    ),
    dns: component(
      "run the sidecar of a DNS resolver for pods: keeps the names that CoreDNS answers current",
      async () => (await import("#extras/pod-dns/start.ts")).startDns,
    ),
    publish: {
      description: "run a publisher, which gives the names to others than opted-in pods, such as the cluster's DNS",
      examples: ["coredns --config switchback.yaml", "coredns --remove"],
      load: async () => await import("./publish.ts"),
    },
    config: {
      description: "print the effective configuration from file and flags as JSON",
      examples: ["--config switchback.yaml", "--set log.level=debug"],
      load: async () => await import("./config.ts"),
    },
  },
};

/** `start`: loads only what this component needs. */
function component(description: string, start: () => Promise<Starter>): Entry {
  const define = (command: TypedCommand, { context }: Definition) => {
    const name = command.name();
    configOptions(command).action(async (flags) => (await import("./serve.ts")).serve(name, start, flags, context));
  };
  return { description, examples: ["--config switchback.yaml"], load: async () => ({ define }) };
}

/**
 * Creates the tree of commands. With `args`, only the command that they name is loaded and gets its options, also in
 * `help status` and `complete -- status`. `setExitCode` is called by commands whose outcome may be a finding.
 */
export async function createProgram(
  context: CliContext,
  setExitCode: (code: number) => void,
  args?: readonly string[],
): Promise<Command> {
  const version = JSON.parse(ownFiles.ownFile("package.json")).version;
  const root = new Command("switchback")
    .description("Maps a cluster's own public hostnames, in opted-in pods, to a relay that speaks the PROXY protocol.")
    // Commander writes no errors: `run` reports them like all others.
    .configureOutput({ writeOut: context.stdout.write, writeErr() {} })
    // Lists only the names of commands: with their arguments, no width would be left for the descriptions.
    .configureHelp({ subcommandTerm: (command) => command.name() })
    .exitOverride()
    .version(version, "-V, --version", "print the version of this program");
  const definition = { context, version, exit: async (code: Promise<number>) => setExitCode(await code) };
  const [wanted] = args?.filter((arg) => !["help", "complete", "--"].includes(arg)) ?? [];
  const entries = Object.entries(COMMANDS).flatMap(([heading, commands]) =>
    Object.entries(commands).map(([name, entry]) => ({ heading, name, ...entry })),
  );
  for (const { heading, name, description, examples, needs, load } of entries) {
    if (needs !== undefined && !ownFiles.hasOwnFile(needs)) continue;
    const lines = examples.map((example) => `switchback ${name} ${example}`.trimEnd());
    const command = root
      .command(name, { hidden: examples.length === 0 })
      .helpGroup(heading)
      .description(description)
      .addHelpText("after", ["\nExamples:", ...lines].join("\n  "));
    if (args === undefined || name === wanted || name === args[0])
      (await load()).define(command as unknown as TypedCommand, definition);
  }
  root.commandsGroup(SELF).helpCommand("help [command]", "show the help of a command").commandsGroup("");
  return root;
}
