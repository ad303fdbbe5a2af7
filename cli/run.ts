import type { CommanderError } from "commander";
import type { CliContext } from "#lib/process/context.ts";
import { createProgram } from "./program.ts";

/** Exit codes: 0 done, 1 a failure or a finding, 2 invalid input. docs/commands.md has the table. */
export const EXIT_FAILURE = 1;
const EXIT_BAD_INPUT = 2;

/**
 * Splits `-o=json`, which kubectl accepts: commander would read the value as `=json`. Arguments after `--` do not
 * change.
 */
function separated(args: readonly string[]): string[] {
  const end = args.indexOf("--");
  return args.flatMap((arg, at) =>
    /^-[a-zA-Z]=/.test(arg) && (end < 0 || at < end) ? [arg.slice(0, 2), arg.slice(3)] : [arg],
  );
}

/** Runs one command line, without the program's name. Nothing is a request for the help. @returns the exit code. */
export async function run(args: readonly string[], context: CliContext): Promise<number> {
  let exitCode = 0;
  try {
    const setExitCode = (code: number) => {
      exitCode = code;
    };
    const program = await createProgram(context, setExitCode, args);
    await program.parseAsync(args.length === 0 ? ["--help"] : separated(args), { from: "user" });
    return exitCode;
  } catch (error) {
    const { code = "", exitCode: suggested } = error as Partial<CommanderError>;
    const isUsage = code.startsWith("commander.");
    // `--help` is not a failure.
    if (isUsage && suggested === 0) return 0;
    // Imported only here: `--help` does not need it.
    const { reportError, usageError } = await import("./report-error.ts");
    const reported = isUsage ? usageError(error as CommanderError, args[0]) : error;
    return reportError(reported, args[0] ?? "", context) ? EXIT_BAD_INPUT : EXIT_FAILURE;
  }
}
