#!/usr/bin/env node
import type { CliContext } from "#lib/process/context.ts";
import { createOutput } from "./output.ts";
import { EXIT_FAILURE, run } from "./run.ts";

const context: CliContext = {
  env: process.env,
  stdout: createOutput(process.stdout, reportLostOutput),
  stderr: createOutput(process.stderr, reportLostOutput),
  progress: { during },
};

/** How long a command may wait before it says for what, milliseconds. */
const SILENT_MS = 2_000;

/** Runs `work`. If it takes long, standard error says what the command waits for. */
async function during<T>(what: string, work: () => Promise<T>): Promise<T> {
  const timer = setTimeout(() => context.stderr.line(`${what} ...`), SILENT_MS);
  try {
    return await work();
  } finally {
    clearTimeout(timer);
  }
}

/** Reports that output is lost. The command continues to its end and then fails, because its output is incomplete. */
function reportLostOutput(error: Error): void {
  context.stderr.line(`switchback: cannot write the output: ${error.message}`);
  process.once("exit", () => {
    process.exitCode ||= EXIT_FAILURE;
  });
}

process.exitCode = await run(process.argv.slice(2), context);
