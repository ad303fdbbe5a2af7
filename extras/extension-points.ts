import type { Command } from "commander";
import type { Metafile } from "esbuild";
import type { PodUpdater } from "#controller/rollout/pod-updater.ts";
import type { FullStatus } from "#controller/status.ts";
import type { AddedCheck, AddedChecks } from "#doctor/added-checks.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import type { Starter } from "#lib/process/running.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { WorkloadKind } from "#lib/workloads/workload-kinds.ts";
import type { Delivery } from "#webhook/delivery.ts";

/**
 * An optional part of the product, and what it adds to the core. Each extra exports one such object from its
 * `extra.ts`; `cli/extras.ts` lists them all. An entry file is loaded by every process, so it imports the extra's
 * code with `import()`.
 */
export interface Extra {
  /** Its folder in `extras/`. */
  readonly name: string;
  /** Adds its commands. */
  readonly addCommands?: (line: CommandLine) => void;
  /** The sections that it adds to the configuration. */
  readonly configSections?: () => Promise<readonly Section[]>;
  /** The sections that it adds to the chart's values. */
  readonly chartValues?: () => Promise<readonly Section[]>;
  /** Reads what `switchback status` says of it beside the controller's status. */
  readonly readStatus?: (client: KubeClient, namespace: string, options: StatusPartOptions) => Promise<StatusPart>;
  /** What brings running pods up to date without a restart; undefined where it is not configured. */
  readonly podUpdater?: (config: Config) => Promise<PodUpdater | undefined>;
  /** Starts another way than hostAliases by which pods get the names, in a webhook. */
  readonly startDelivery?: (config: Config, log: Logger) => Promise<Delivery>;
  /** Its pods that get every name below a wildcard, in words for a status; undefined where it is not configured. */
  readonly wildcardPods?: (config: Config) => Promise<string | undefined>;
  /** A page that shows the demo. The demo gets an option of the extra's name for it. */
  readonly demoPage?: DemoPage;
  /** Checks that it adds to the doctor's. */
  readonly checks?: () => Promise<readonly AddedCheck[]>;
  /**
   * Its workloads in other namespaces than Switchback's, by the sections of the configuration as they are there. They
   * may not exist.
   */
  readonly workloads?: (sections: Sections) => Promise<readonly InstalledWorkload[]>;
  /** What an uninstall has to do about it. */
  readonly uninstall?: () => Promise<UninstallPart>;
  /** Files that its commands read beside the program. */
  readonly commandFiles?: CommandFiles;
}

/** What the command line offers to the commands of an extra. */
export interface CommandLine {
  readonly context: CliContext;
  readonly ownFiles: OwnFiles;
  /**
   * Adds a command that runs a component: flags for the configuration and the log. `examples`: what follows
   * `switchback`.
   */
  addComponent(name: string, ...examples: readonly string[]): Command;
  /** Adds a command that reads a cluster: flags for credentials and the namespace. `examples` as before. */
  addClusterCommand(name: string, ...examples: readonly string[]): Command;
  /** Adds the flags that say how to reach an API server: those of `ConnectFlags`. */
  addConnection(command: Command): Command;
  /** Asks the person at the terminal. Throws `declined` without a yes, or without a terminal. */
  agree(question: string): Promise<void>;
  /** Reads the configuration as a component does. Throws `config-invalid`. */
  readConfig(flags: ConfigFlags): Promise<Config>;
  /** Runs a component until a signal stops it. `name` is that of its log lines. */
  serve(name: string, load: () => Promise<Starter>, flags: ConfigFlags): Promise<void>;
  /** Reads the whole status of the leading controller, with the workloads that it has observed so far. */
  leaderStatus(client: KubeClient, namespace: string, signal: AbortSignal): Promise<FullStatus>;
  /** What the extras add to the diagnosis. */
  addedChecks(): Promise<AddedChecks>;
  /** What to do about an error that a caller without rights gets; undefined if it is about something else. */
  cureOfRefusal(error: unknown, invoked: { readonly command: string; readonly namespace: string }): string | undefined;
}

/** The program's own files, by their paths in the repository. */
export interface OwnFiles {
  /** The text of a file. Throws if there is none of that name. */
  ownFile(path: string): string;
  hasOwnFile(path: string): boolean;
  /** Whether there is such a folder with anything in it. */
  hasOwnFolder(path: string): boolean;
}

export interface StatusPartOptions {
  /** Milliseconds since 1970, when the cluster was read. */
  readonly now: number;
  readonly signal?: AbortSignal | undefined;
}

export interface StatusPart {
  /** Keys of the status document; empty where there is nothing to say. */
  readonly document: Readonly<Record<string, unknown>>;
  /** Lines of the text. */
  lines(): readonly string[];
}

export interface DemoPage {
  /** Of the demo's option. */
  readonly description: string;
  /** Serves the page, and says where. Resolves to what ends it. */
  show(options: {
    readonly status: () => FullStatus;
    /** Of its processes, in Prometheus' text format. */
    readonly metrics: () => Promise<readonly string[]>;
    readonly ownFiles: OwnFiles;
    readonly say: (line: string) => void;
  }): Promise<() => Promise<void>>;
}

/** The sections of an installed configuration, as they are there: the install may be of another version. */
type Sections = Readonly<Record<string, unknown>>;

interface InstalledWorkload {
  readonly kind: WorkloadKind;
  readonly namespace: string;
  readonly name: string;
}

/** Steps of an uninstall. */
export interface UninstallPart {
  /**
   * Takes out what it has written for others than pods, once no pod has to be released any more. Proxies and front
   * Services still serve. Throws `still-held` if that is not possible.
   */
  readonly takeOut?: (options: TakeOutOptions) => Promise<void>;
  /**
   * Its last step, by the sections of the configuration: it follows what all extras take out. Throws if its section
   * is not valid.
   */
  readonly lastStep?: (sections: Sections) => LastStep;
  /** ClusterIPs that end with it and that pods hold, and the Service of each. */
  readonly addresses?: (
    client: KubeClient,
    namespace: string,
    sections: Sections,
  ) => Promise<ReadonlyMap<string, string>>;
  /** Names of ConfigMaps in Switchback's namespace that its processes have created. */
  readonly configMaps?: (client: KubeClient, namespace: string) => Promise<readonly string[]>;
}

export interface LastStep {
  /** What it does: a sentence of the plan. */
  readonly plan: string;
  /** Resolves to what still holds addresses of Switchback when the time is over; undefined if nothing does. */
  readonly run: (options: TakeOutOptions) => Promise<StillHolding | undefined>;
}

interface StillHolding {
  /** `agents`. */
  readonly who: string;
  /** What they hold; the uninstall adds what to do. */
  readonly text: string;
}

export interface TakeOutOptions {
  readonly client: KubeClient;
  /** Where Switchback is installed. */
  readonly namespace: string;
  readonly sections: Sections;
  /** Whether this process resolves names as the cluster's pods do. */
  readonly canAsk: boolean;
  readonly timeoutMs: number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** A line for a person. */
  readonly say: (line: string) => void;
}

interface CommandFiles {
  /** Files of the repository that are taken as they are. */
  readonly copied: readonly string[];
  build(): Promise<BuiltFiles>;
}

export interface BuiltFiles {
  /** Text by path in the repository. */
  readonly files: Readonly<Record<string, string>>;
  /** Names the packages of which something is in the files. */
  readonly metafile: Metafile;
}
