import type { Command } from "@commander-js/extra-typings";
import { InvalidArgumentError, type OptionValues } from "commander";
import type { CliContext } from "#lib/process/context.ts";

/** What the file of a command exports. */
export interface CommandFile {
  /** Adds arguments, options and the action. */
  readonly define: (command: Command, definition: Definition) => void;
}

/** What the action of a command needs. */
export interface Definition {
  readonly context: CliContext;
  /** Version of this program. */
  readonly version: string;
  /** Waits for a command whose result is its exit code. */
  readonly exit: (running: Promise<number>) => Promise<void>;
}

/** The values of the options that a function adds to a command. */
export type FlagsOf<O extends (command: Command) => { opts(): unknown }> = ReturnType<ReturnType<O>["opts"]>;

/** The namespace that Switchback is installed in by default. */
export const DEFAULT_NAMESPACE = "switchback-system";

// Groups of options.

/** Adds the flags that say how to reach an API server, those of `ConnectFlags`. */
export function connectionOptions<A extends unknown[], O extends OptionValues>(command: Command<A, O>) {
  const limit = "time limit for each request: seconds, or 5s, 1m (default: 10s)";
  return command
    .option("--kubeconfig <file>", "path to the kubeconfig file", notEmpty)
    .option("--context <name>", "kubeconfig context to use", notEmpty)
    .option("--as <user>", "user to impersonate", userName)
    .option("--request-timeout <time>", limit, durationSeconds);
}

/** Adds the flags of a command that works on an installation. */
export function installationOptions(command: Command) {
  const text = "namespace of Switchback itself, not that of your pods";
  return connectionOptions(command).option("-n, --namespace <name>", text, namespaceName, DEFAULT_NAMESPACE);
}

/** Adds the flags of a command that shows or changes objects of namespaces. It finds the installation. */
export function objectsOptions(command: Command) {
  const text = "namespace of Switchback itself (default: found)";
  return connectionOptions(command).option("--switchback-namespace <name>", text, namespaceName);
}

/** Adds the flags of a command that reads the configuration, those of `ConfigFlags`. */
export function configOptions(command: Command) {
  return command
    .option("--config <file>", "configuration file (YAML)", notEmpty)
    .option("--set <path=value...>", "override one setting, such as log.level=debug");
}

/** What `-o` accepts. */
export const FORMATS = ["text", "json", "yaml", "name"] as const;

/** The option `-o`. */
export function outputOption(command: Command) {
  return command
    .createOption("-o, --output <format>", "output format")
    .choices(FORMATS)
    .default("text" as const);
}

/** The option `--from`. `others`: options that it excludes, besides those that select a cluster. */
export function fromOption(command: Command, ...others: readonly string[]) {
  const text = "read a file of switchback dump instead of a cluster; - for standard input";
  return command
    .createOption("--from <file>", text)
    .argParser(notEmpty)
    .conflicts(["kubeconfig", "context", "as", "requestTimeout", ...others]);
}

// Parsers of options. Each throws commander's InvalidArgumentError, which names the option, the value and the
// accepted values.

/** RFC 1123 label. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Whether the API server accepts `text` as the name of a namespace. */
export function isNamespace(text: string): boolean {
  return LABEL.test(text);
}

/** Parses the name of a namespace. */
export function namespaceName(value: string): string {
  if (isNamespace(value)) return value;
  throw new InvalidArgumentError("Expected a namespace: 1 to 63 lower case letters, digits and inner hyphens.");
}

/** Refuses an empty value, as from `--kubeconfig "$UNSET"` in a script. It must not select the default. */
export function notEmpty(value: string): string {
  if (value.trim() !== "") return value;
  throw new InvalidArgumentError("It is empty: leave it out for the default.");
}

/** Parses the name of a user, which becomes a header of requests. */
function userName(value: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  throw new InvalidArgumentError("Expected a user, such as jane or system:serviceaccount:shop:web.");
}

/** Returns a parser of whole numbers from 1 to `max`. */
export function wholeNumber(max: number): (value: string) => number {
  return (value) => {
    const number = Number(value);
    if (/^\d{1,9}$/.test(value) && number > 0 && number <= max) return number;
    throw new InvalidArgumentError(`Expected a whole number from 1 to ${max}.`);
  };
}

/** Collects the values of an option, which may be repeated (`-f a -f b`) or followed by several values (`-f a b`). */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, notEmpty(value)];
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { "": 1, s: 1, m: 60, h: 3600 };
const MAX_SECONDS = 24 * 3600;

/** Parses a time limit in seconds: `300`, or with a unit as in kubectl: `90s`, `5m`, `1h`. */
export function durationSeconds(value: string): number {
  const [, digits, unit = ""] = /^(\d{1,9})(s|m|h|)$/.exec(value) ?? [];
  const seconds = Number(digits) * (UNIT_SECONDS[unit] ?? Number.NaN);
  if (seconds > 0 && seconds <= MAX_SECONDS) return seconds;
  throw new InvalidArgumentError("Expected a number of seconds, or a time such as 90s, 5m or 1h, up to 24h.");
}
