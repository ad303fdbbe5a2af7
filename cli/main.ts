#!/usr/bin/env node
import type { CliContext, Progress } from "#lib/process/context.ts";
import { createOutput, usesColour } from "./output.ts";
import { EXIT_FAILURE, run } from "./run.ts";

const { env } = process;
let shown: Progress | undefined;
/** Loaded by the first command that waits: stripping types takes milliseconds of CPU for each file. */
const progress: Progress = {
  async during(what, work) {
    shown ??= (await import("./progress.ts")).createProgress(process.stderr);
    return await shown.during(what, work);
  },
  clear: () => shown?.clear(),
};
const outputOf = (stream: NodeJS.WriteStream) =>
  createOutput(stream, {
    colour: usesColour(stream, env),
    onError: reportLostOutput,
    beforeWrite: progress.clear,
  });
const context: CliContext = { env, stdout: outputOf(process.stdout), stderr: outputOf(process.stderr), progress };

/** Reports that output is lost. The command continues to its end and then fails, because its output is incomplete. */
function reportLostOutput(error: Error): void {
  context.stderr.line(`switchback: cannot write the output: ${error.message}`);
  process.once("exit", () => {
    process.exitCode ||= EXIT_FAILURE;
  });
}

process.exitCode = await run(process.argv.slice(2), context);
