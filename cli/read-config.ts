import { type ExecFileException, execFile } from "node:child_process";
import type { LoadedConfig } from "#lib/config/document.ts";
import { loadPlainConfig } from "#lib/config/plain.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { ownCommand } from "./own-files.ts";
import type { ServeFlags } from "./serve.ts";

/** Bytes: above what a file and the environment can hold. */
const MAX_OUTPUT = 64 * 1024 * 1024;

const CONFIG_COMMAND = "config";

type Env = Readonly<Record<string, string | undefined>>;

/**
 * Reads a component's configuration. What the chart writes needs no library. Any other is read by a child process, `switchback config`: the
 * libraries that parse and validate it would stay in memory, 18 MB of the agent's 60 on every node. Throws `config-invalid` with the
 * child's error output.
 */
export async function readConfig(flags: ServeFlags, env: Env): Promise<LoadedConfig> {
  const plain = loadPlainConfig({ file: flags.config, env, set: flags.set });
  return plain ?? (await readConfigInChild(flags, env));
}

async function readConfigInChild(flags: ServeFlags, env: Env): Promise<LoadedConfig> {
  // Whatever a process's script is, it is never started again and again: a program that is embedded is its caller's script.
  if (process.argv[2] === CONFIG_COMMAND)
    throw new SwitchbackError(
      "config-invalid",
      "cannot read the configuration: a child that reads it has no child of its own",
    );
  const [program, ...script] = ownCommand();
  const file = flags.config === undefined ? [] : ["--config", flags.config];
  const set = flags.set === undefined ? [] : ["--set", ...flags.set];
  const args = [...script, CONFIG_COMMAND, "--ignore-unknown", ...file, ...set];
  const { promise, resolve } = Promise.withResolvers<[ExecFileException | null, string, string]>();
  execFile(program, args, { encoding: "utf8", env, maxBuffer: MAX_OUTPUT }, (...ended) => resolve(ended));
  const [error, stdout, stderr] = await promise;
  if (error === null) return JSON.parse(stdout) as LoadedConfig;
  const text = stderr.trim().replaceAll(/^switchback: /gm, "");
  throw new SwitchbackError("config-invalid", text || `cannot read the configuration: ${error.signal ?? error.code}`);
}
