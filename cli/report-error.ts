import type { CommanderError } from "commander";
import { describeError, hasCode, SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { CliContext } from "#lib/process/context.ts";
import { DEFAULT_NAMESPACE } from "./command.ts";

/** Maximum number of faults to print for one input. */
const MAX_FAULTS = 4;

/** Prints what went wrong with a command, with the cause last. @returns whether the command's input was invalid. */
export function reportError(error: unknown, command: string, { stderr }: CliContext): boolean {
  const isBadInput = hasCode(error, "config-invalid") || hasCode(error, "input-invalid");
  // One line per fault.
  const faults = isBadInput && error.cause === undefined ? error.message.split("\n") : [];
  const cure = cureOfRefusal(error, { command });
  const instead = describe(error).startsWith("no cluster configured") ? INSTEAD[command] : undefined;
  const first = faults.length > MAX_FAULTS ? [`${faults.length} faults; the first ${MAX_FAULTS}:`] : [];
  const lines = faults.length > 1 ? [...first, ...faults.slice(0, MAX_FAULTS)] : [describe(error) + (instead ?? "")];
  for (const line of [...lines, ...(cure === undefined ? [] : [cure])]) stderr.line(`switchback: ${line}`);
  return isBadInput;
}

/** Codes of commander whose message names the accepted values, so that a hint to the usage adds nothing. */
const COMPLETE = ["commander.invalidArgument", "commander.conflictingOption"];

/**
 * Turns commander's error into one line: the fault, and where to find the usage. `command` is the first word of the
 * command line.
 */
export function usageError({ code, message }: CommanderError, command: string | undefined): SwitchbackError {
  const isCommand = command !== undefined && /^[a-z]/.test(command) && code !== "commander.unknownCommand";
  const help = `\`switchback ${isCommand ? `${command} ` : ""}--help\``;
  // Of `help` with a command that does not exist.
  if (code === "commander.help")
    return new SwitchbackError("input-invalid", "unknown command; see `switchback --help`");
  const text = message
    .replace(/^error: /, "")
    .replaceAll("\n", " ")
    .replace(/^command-argument value (.*) is invalid for argument '[^']*'\./, "argument $1 is invalid.");
  const isComplete = COMPLETE.includes(code) || text.endsWith("?)");
  return new SwitchbackError("input-invalid", isComplete ? text : `${text.replace(/\.$/, "")}; see ${help}`);
}

/**
 * Describes an error. An unexpected one is marked as such: its text alone, such as "x is not iterable", would not
 * help.
 */
function describe(error: unknown): string {
  const isForeseen = error instanceof SwitchbackError || !(error instanceof TypeError || error instanceof RangeError);
  return isForeseen ? describeError(error) : `unexpected answer, or a bug in this program: ${describeError(error)}`;
}

/** What a command can do without a cluster. */
const INSTEAD: Readonly<Record<string, string>> = {
  doctor: "; --kubeconfig FILE names a cluster, --from FILE reads one from a file, and `switchback demo` needs none",
  inject: "; with --hosts FILE, inject needs no cluster",
};

/** The ClusterRole that the chart installs for people. It does not bind it to anybody. */
const READER = "switchback-reader";
/** Commands for which its rights in Switchback's namespace are enough. */
const IN_NAMESPACE: readonly string[] = ["status", "dashboard", "restart", "inject"];
/** The user in an error text of the API server, and the namespace in its path. */
const USER = /\bUser "([^"]+)" cannot\b/;
const NAMESPACE = /\/namespaces\/([^/]+)\//;

/** What a caller without credentials or rights can do about an error status. Undefined for other errors. */
export function cureOfRefusal(error: unknown, { command }: { readonly command: string }): string | undefined {
  const status = statusOf(error);
  if (status === 401) return "log in to the cluster again, or renew the token or certificate that the kubeconfig has";
  if (status !== 403) return undefined;
  const { message } = error as Error;
  if (/\bcannot impersonate\b/.test(message))
    return "--as needs permission to impersonate users: omit it, or ask an admin for the permission";
  if (command === "uninstall") return "uninstalling needs the permissions of a cluster admin, like installing";
  if (command === "doctor" || command === "dump")
    return `the ClusterRole ${READER} has these rights; docs/doctor.md says how to bind it`;
  if (!IN_NAMESPACE.includes(command)) return undefined;
  const user = USER.exec(message)?.[1] ?? "USER";
  const namespace = NAMESPACE.exec(message)?.[1] ?? DEFAULT_NAMESPACE;
  const bind = `kubectl -n ${namespace} create rolebinding ${READER} --clusterrole ${READER} --user '${user}'`;
  return `the ClusterRole ${READER} has the right; an admin can bind it in the namespace ${namespace}: ${bind}`;
}
