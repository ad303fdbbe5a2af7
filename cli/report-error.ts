import { describeError, hasCode, SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { CliContext } from "#lib/process/context.ts";
import { brokenLines } from "./layout.ts";
import { cureOfRefusal, type Invocation } from "./missing-rights.ts";
import { paint } from "./output.ts";

const PREFIX = "switchback:";

/** Prints what went wrong with a command. @returns whether its input was bad. */
export function reportError(error: unknown, invoked: Invocation, { stderr }: CliContext): boolean {
  // A configuration error has one line per fault.
  const faults = hasCode(error, "config-invalid") && error.cause === undefined ? error.message.split("\n") : [];
  const cure = cureOfRefusal(error, invoked);
  for (const line of [...(faults.length > 1 ? faults : [describe(error)]), ...(cure === undefined ? [] : [cure])]) {
    const lines = brokenLines(`${PREFIX} ${printable(line)}`, stderr.columns);
    stderr.write(paint("bad", PREFIX) + lines.slice(PREFIX.length));
  }
  return hasCode(error, "config-invalid") || hasCode(error, "input-invalid");
}

/** An error that nobody has foreseen says so: its text alone, such as "x is not iterable", would be no help. */
function describe(error: unknown): string {
  const isForeseen = error instanceof SwitchbackError || !(error instanceof TypeError || error instanceof RangeError);
  return isForeseen
    ? describeError(error)
    : `an answer that was not expected, or a fault of this program: ${describeError(error)}`;
}
