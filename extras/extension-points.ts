import type { Command } from "commander";
import type { FullStatus } from "#controller/status.ts";
import type { AddedCheck, AddedChecks } from "#doctor/added-checks.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import type { CliContext, ConfigFlags } from "#lib/process/context.ts";
import type { Starter } from "#lib/process/running.ts";

/**
 * An optional part of the product, and what it adds to the core. Each extra exports one such object from its
 * `extra.ts`; `cli/extras.ts` lists them all. Every process loads each `extra.ts`, so this file imports the rest of
 * the extra's code with `import()`.
 */
export interface Extra {
  /** Adds its commands. */
  readonly addCommands: (line: CommandLine) => void;
  /** The sections that it adds to the configuration. */
  readonly configSections?: () => Promise<readonly Section[]>;
  /** The sections that it adds to the chart's values. */
  readonly chartValues?: () => Promise<readonly Section[]>;
  /** Checks that it adds to the doctor. */
  readonly checks?: () => Promise<readonly AddedCheck[]>;
  /** What an uninstall has to do for this extra. */
  readonly uninstall?: () => Promise<UninstallPart>;
}

/** What the command line offers to the commands of an extra. */
export interface CommandLine {
  readonly context: CliContext;
  readonly ownFiles: OwnFiles;
  /**
   * Adds a command that runs a component, with flags for the configuration and the log. `examples`: command lines for
   * the help, without the leading `switchback`.
   */
  addComponent(name: string, ...examples: readonly string[]): Command;
  /**
   * Adds a command that reads a cluster, with flags for credentials and the namespace. `examples`: as for
   * `addComponent`.
   */
  addClusterCommand(name: string, ...examples: readonly string[]): Command;
  /** Adds the flags of `ConnectFlags`, which say how to reach an API server. */
  addConnection(command: Command): Command;
  /**
   * Asks the person at the terminal to confirm. Throws `declined` if the answer is not yes, or if there is no
   * terminal.
   */
  agree(question: string): Promise<void>;
  /** Reads the configuration as a component does. Throws `config-invalid`. */
  readConfig(flags: ConfigFlags): Promise<Config>;
  /** Runs a component until a signal stops it. `name`: the component's name in its log lines. */
  serve(name: string, load: () => Promise<Starter>, flags: ConfigFlags): Promise<void>;
  /** Reads the whole status of the leading controller, with the workloads that it has observed so far. */
  leaderStatus(client: KubeClient, namespace: string, signal: AbortSignal): Promise<FullStatus>;
  /** What the extras add to the diagnosis. */
  addedChecks(): Promise<AddedChecks>;
  /**
   * What to do about an error that the API server returned for missing credentials or rights; undefined for other
   * errors.
   */
  cureOfRefusal(error: unknown, invoked: { readonly command: string; readonly namespace: string }): string | undefined;
}

/** The program's own files, by their paths in the repository. */
export interface OwnFiles {
  /** The text of a file. Throws if the file does not exist. */
  ownFile(path: string): string;
  hasOwnFile(path: string): boolean;
  /** Whether the program has this folder. */
  hasOwnFolder(path: string): boolean;
}

/** The sections of an installed configuration, not validated: the install may be of another version. */
export type Sections = Readonly<Record<string, unknown>>;

/** Steps of an uninstall. */
export interface UninstallPart {
  /**
   * Takes out what the extra has written for readers other than pods, after pods have been released. Proxies and
   * front Services still serve meanwhile. Throws `still-held` if that is not possible.
   */
  readonly takeOut?: (options: TakeOutOptions) => Promise<void>;
  /**
   * The extra's last step, according to the sections of the configuration. It runs after `takeOut` of all extras.
   * Throws if the extra's section is not valid.
   */
  readonly lastStep?: (sections: Sections) => LastStep;
  /** ClusterIPs that pods hold and that end with the extra, each with the name of its Service. */
  readonly addresses?: (
    client: KubeClient,
    namespace: string,
    sections: Sections,
  ) => Promise<ReadonlyMap<string, string>>;
  /** Names of ConfigMaps in Switchback's namespace that its processes have created. */
  readonly configMaps?: (client: KubeClient, namespace: string) => Promise<readonly string[]>;
}

export interface LastStep {
  /** What the step does, as a sentence of the plan. */
  readonly plan: string;
  /**
   * Resolves to what still holds addresses of Switchback when the timeout expires, or to undefined if nothing does.
   */
  readonly run: (options: TakeOutOptions) => Promise<StillHolding | undefined>;
}

interface StillHolding {
  /** Subject of the uninstall's message, such as `agents`. */
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
  /** Prints a line for a person. */
  readonly say: (line: string) => void;
}
