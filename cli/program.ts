import { Argument, Command, Option } from "commander";
import type { CommandLine } from "#extras/extension-points.ts";
import type { CliContext } from "#lib/process/context.ts";
import { addedChecks, EXTRAS } from "./extras.ts";
import { cureOfRefusal } from "./missing-rights.ts";
import {
  collect,
  DEFAULT_NAMESPACE,
  durationSeconds,
  FORMATS,
  imageReference,
  namespaceName,
  notEmpty,
  positiveInteger,
  SHELLS,
  userName,
} from "./options.ts";
import { EXAMPLES, hasOwnFile, hasOwnFolder, ownFile } from "./own-files.ts";

/** Headings of the help, which shows them in the order in which the first command of each is added. */
const GROUPS = {
  look: "Find out:",
  change: "Change:",
  self: "This program:",
  component: "Components, which the chart starts:",
} as const;
type Group = keyof typeof GROUPS;

/**
 * Creates the tree of commands. Each command's module is loaded only when the command runs: a webhook must not load
 * what only the demo needs. Commands whose outcome may be a finding call `setExitCode`.
 */
export function createProgram(context: CliContext, setExitCode: (code: number) => void): Command {
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
  addDoctor(root, context, setExitCode);
  addStatus(root, context, setExitCode);
  addDemo(root, context);
  addChanges(root, context, setExitCode);
  addAboutItself(root, context);
  addComponents(root, context);
  const line = commandLine(root, context);
  for (const { addCommands } of EXTRAS) addCommands(line);
  return root;
}

/** Adds a command. Its help ends with the `examples`, which begin after `switchback`. */
function addCommand(root: Command, name: string, group: Group, examples: readonly string[]): Command {
  const lines = examples.map((example) => `\n  switchback ${example}`);
  return root
    .command(name)
    .helpGroup(GROUPS[group])
    .addHelpText("after", `\nExamples:${lines.join("")}`);
}

function addComponents(root: Command, context: CliContext): void {
  for (const [name, description] of [
    ["controller", "run the controller: keeps the map, the front Services and the certificates current"],
    ["webhook", "run the webhook: injects hostAliases into new opted-in pods"],
    ["proxy", "run the proxy: adds the PROXY header and relays to the ingress controller"],
    ["all", "run controller, webhook and proxy in one process, for small clusters"],
  ] as const) {
    addConfigured(root, name, [`${name} --config switchback.yaml`])
      .description(description)
      .action(async (flags) => (await import("./serve.ts")).serve(name, flags, context));
  }
  addConfigured(root, "config", ["config --config switchback.yaml", "config --set log.level=debug"])
    .description("print the effective configuration from file and flags as JSON")
    .option(
      "--ignore-unknown",
      "warn about settings of the file that are unknown, as the components do; default: refuse",
    )
    .action(async (flags) => (await import("./config.ts")).printConfig(flags, context));
}

/** The functions with which extras add their commands. */
function commandLine(root: Command, context: CliContext): CommandLine {
  return {
    context,
    ownFiles: { ownFile, hasOwnFile, hasOwnFolder },
    addComponent: (name, ...examples) => addConfigured(root, name, examples),
    addClusterCommand: (name, ...examples) => addClusterCommand(root, name, "look", examples),
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

/** Adds a command that reads the configuration. */
function addConfigured(root: Command, name: string, examples: readonly string[]): Command {
  return addCommand(root, name, "component", examples)
    .option("--config <file>", "configuration file (YAML)", notEmpty)
    .option("--set <path=value...>", "override one setting, such as log.level=debug");
}

/** Adds a command that talks to an API server, with the flags for credentials and namespace. */
function addClusterCommand(root: Command, name: string, group: Group, examples: readonly string[]): Command {
  return addConnection(addNamespace(addCommand(root, name, group, examples)));
}

function addNamespace(command: Command): Command {
  const description = "namespace that Switchback is installed in";
  return command.option("-n, --namespace <name>", description, namespaceName, DEFAULT_NAMESPACE);
}

/** Adds the flags that say how to reach an API server, those of `ConnectFlags`. */
function addConnection(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "path to the kubeconfig file", notEmpty)
    .option("--context <name>", "kubeconfig context to use", notEmpty)
    .option("--as <user>", "user to impersonate", userName)
    .option(
      "--request-timeout <time>",
      "time limit for each request: seconds, or 5s, 1m (default: 10s)",
      durationSeconds,
    );
}

/** Options that select the cluster. */
const OF_CLUSTERS = ["namespace", "kubeconfig", "context", "as", "requestTimeout"];

function fromDump(): Option {
  const option = new Option(
    "--from <file>",
    "read a file of switchback dump or kubectl get -o yaml instead of a cluster; - for standard input",
  );
  return option.argParser(notEmpty);
}

function outputFormat(): Option {
  return new Option("-o, --output <format>", "output format").choices(FORMATS).default("text");
}

function addDemo(root: Command, context: CliContext): void {
  // The image contains neither the demo nor its examples.
  if (!hasOwnFolder(EXAMPLES)) return;
  addCommand(root, "demo", "look", ["demo", "demo manifests/ --keep"])
    .description("show how Switchback works on this machine; needs no cluster and no root")
    .argument("[directory]", "directory with Kubernetes YAML (default: examples that come with this program)")
    .option("--keep", "keep running until Ctrl-C")
    .option("--dashboard", "keep running, and show the names on a page of this machine")
    .action(async (directory, flags) => (await import("./demo.ts")).demo({ directory, ...flags }, context));
}

/** Adds the commands that change files or the cluster, or that print a changed file. */
function addChanges(root: Command, context: CliContext, setExitCode: (code: number) => void): void {
  addClusterCommand(root, "inject", "change", [
    "inject deployment.yaml > injected.yaml",
    "inject -R deploy/ --hosts hosts.txt --strict",
  ])
    .description(
      "add hostAliases to workloads in YAML or JSON files and print the result, for GitOps without the webhook",
    )
    .argument("[files...]", "files or directories with workloads; - for standard input", collect)
    .option("-f, --filename <file...>", "files or directories, as in kubectl", collect)
    .option("-R, --recursive", "read the folders of directories, too")
    .option("--hosts <file>", "read the names from a hosts file instead of the published map", notEmpty)
    .option("--template-path <kind=path...>", "inject another kind, such as Rollout.argoproj.io=spec.template", collect)
    .option("--opted-in", "inject only what the label of a pod template, or of its Namespace in the input, opts in")
    .option("--strict", "fail if there are warnings, such as a pod template in an object of an unknown kind")
    .option("--max-names <n>", "maximum number of names per pod", positiveInteger)
    .option("--long-line", "allow lines that are too long for musl (over 480 bytes) or Windows (over nine names)")
    .action(async (files: readonly string[], { filename = [], ...flags }) => {
      await (await import("./inject.ts")).inject({ ...flags, filename: [...files, ...filename] }, context);
    });
  addClusterCommand(root, "restart", "change", ["restart cert-manager", "restart shop/deployment/web --yes"])
    .description("restart workloads whose pods lack the current names, with your own permissions")
    .argument("<namespace[/[kind/]workload]>", "a namespace, or one workload in it, such as shop/deployment/web")
    .option("--timeout <time>", "time limit for each rollout: seconds, or 90s, 5m, 1h", durationSeconds, 300)
    .option("--yes", "skip the confirmation prompt")
    .action(async (what, flags) => {
      setExitCode(await (await import("./restart.ts")).restart(what, flags, context));
    });
  addClusterCommand(root, "uninstall", "change", ["uninstall --check", "uninstall --timeout 10m"])
    .description(
      "remove Switchback's addresses from the cluster's pods before you uninstall it; the chart's hooks run this",
    )
    .option("--check", "print the plan without changing anything; fails while pods hold addresses of Switchback")
    .addOption(
      new Option(
        "--remains",
        "delete the objects created at run time, after the rest is uninstalled",
        // A check must not delete anything.
      ).conflicts("check"),
    )
    .option("--force", "continue even if pods hold addresses of Switchback")
    .option("--timeout <time>", "time limit for restarts: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .option("--yes", "skip the confirmation prompt")
    .action(async (flags) => (await import("./uninstall.ts")).uninstall(flags, context));
}

/** Adds the commands that show what the controller knows, and the data that this is based on. */
function addStatus(root: Command, context: CliContext, setExitCode: (code: number) => void): void {
  addClusterCommand(root, "status", "look", [
    "status",
    "status --in cert-manager -w",
    "status --name '*.example.com' -o wide",
    "status --stuck -o name",
  ])
    .description(
      "show every name with its target or the reason it has none, and every opted-in workload with the state of " +
        "its pods",
    )
    .addOption(outputFormat())
    .option("--in <namespace>", "only names from objects of this namespace, and its workloads", namespaceName)
    .addOption(
      new Option("-A, --all-namespaces", "names and workloads of all namespaces (the default)").conflicts("in"),
    )
    .option("--name <pattern>", "only hostnames that match, such as '*.example.com'", notEmpty)
    .option("--refused", "only names that no pod gets")
    .option("--stuck", "only workloads that stay stale until somebody acts")
    .option("--all", "print every row; else each table ends after 100 on a terminal")
    .option("-w, --watch", "print the status again whenever it changes, until Ctrl-C")
    .addOption(fromDump().conflicts([...OF_CLUSTERS, "watch"]))
    .action(async (flags) => {
      setExitCode(await (await import("./status.ts")).status(flags, context));
    });
  addClusterCommand(root, "dump", "look", ["dump --redact > dump.yaml"])
    .description("print what doctor and controller read of a cluster, without Secrets, for a report to others")
    .option("--probe-namespace <name>", "namespace for the dry-run pod", namespaceName, "default")
    .option("--redact", "replace all words and addresses but Switchback's own, each always by the same one")
    .action(async (flags) => (await import("./dump.ts")).dump(ownVersion(), flags, context));
}

function addDoctor(root: Command, context: CliContext, setExitCode: (code: number) => void): void {
  addClusterCommand(root, "doctor", "look", ["doctor", "doctor --probe", "doctor --from dump.yaml"])
    .description("diagnose a cluster, with or without Switchback, and print findings with cures")
    .option("--probe", "run a short-lived pod that tests connections and resolves names, without asking")
    .option("--no-probe", "run no pod, and do not ask")
    .option("--probe-namespace <name>", "namespace for the probe pod and for the dry-run pod", namespaceName, "default")
    .option("--strict", "exit with 1 also if something could not be examined")
    .option(
      "--image <image>",
      "image of the probe pod, any with Node 18 or newer (default: the installed proxy's, else a public one)",
      imageReference,
    )
    .addOption(fromDump().conflicts([...OF_CLUSTERS, "probe", "probeNamespace", "image"]))
    .addOption(outputFormat())
    .action(async (flags) => {
      setExitCode(await (await import("./doctor.ts")).doctor(flags, context));
    });
  addConnection(addNamespace(root.command("install-check", { hidden: true })))
    .description("wait until the API server calls the webhook; the chart's hook after an install runs this")
    .option("--timeout <time>", "how long to wait: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .action(async (flags) => (await import("./install-check.ts")).installCheck(flags, context));
}

function addAboutItself(root: Command, context: CliContext): void {
  addClusterCommand(root, "version", "self", ["version", "version --client -o json"])
    .description("print the versions of this program and of the components in the cluster")
    .option("--client", "only the version of this program; needs no cluster")
    .addOption(outputFormat())
    .action(async (flags) => (await import("./version.ts")).version(ownVersion(), flags, context));
  addCommand(root, "completion", "self", ["completion bash", "completion fish | source"])
    .description("print a script that completes commands and options: source <(switchback completion bash)")
    .addArgument(new Argument("<shell>", "the shell that reads it").choices(SHELLS))
    .action(async (shell) => (await import("./completion.ts")).completion(shell, root, context));
  root
    .command("complete", { hidden: true })
    .argument("<what>", "what a script of `switchback completion` asks for")
    .argument("[words...]", "the word at the cursor, and the words of the line")
    .action(async (what, words) => (await import("./completion/asked.ts")).complete(what, words, context));
  root.commandsGroup(GROUPS.self).helpCommand("help [command]", "show the help of a command").commandsGroup("");
}
