import type { CommanderError } from "commander";
import { describeError, hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { CliContext } from "#lib/process/context.ts";
import { brokenLines } from "./layout.ts";
import { cureOfRefusal, type Invocation } from "./missing-rights.ts";
import { paint } from "./output.ts";

const PREFIX = "switchback:";
/** Maximum number of faults to print for one configuration. */
const MAX_FAULTS = 4;

/** Prints what went wrong with a command, with the cause last. @returns whether the command's input was invalid. */
export function reportError(error: unknown, invoked: Invocation, { stderr }: CliContext): boolean {
  // A configuration error has one line per fault.
  const faults = hasCode(error, "config-invalid") && error.cause === undefined ? error.message.split("\n") : [];
  const cure = cureOfRefusal(error, invoked);
  const first = faults.length > MAX_FAULTS ? [`${faults.length} settings are wrong; the first ${MAX_FAULTS}:`] : [];
  const lines = faults.length > 1 ? [...first, ...faults.slice(0, MAX_FAULTS)] : [describe(error)];
  for (const line of [...lines, ...(cure === undefined ? [] : [cure])]) {
    const text = brokenLines(`${PREFIX} ${printable(line)}`, stderr.columns);
    stderr.write(paint("bad", PREFIX) + text.slice(PREFIX.length));
  }
  return hasCode(error, "config-invalid") || hasCode(error, "input-invalid");
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
