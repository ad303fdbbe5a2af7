import { spawnSync } from "node:child_process";
import type { loadConfig } from "../config/load.ts";
import { SwitchbackError } from "../errors/errors.ts";
import { ownCommand } from "./own-files.ts";
import type { ServeFlags } from "./serve.ts";

type Loaded = ReturnType<typeof loadConfig>;
type Env = Readonly<Record<string, string | undefined>>;

/**
 * Reads the configuration in a child process, `switchback config`: the libraries that parse and validate it would stay in memory,
 * 18 MB of the agent's 60 on every node. Throws `config-invalid` with the child's error output.
 */
export function readConfigInChild(flags: ServeFlags, env: Env): Loaded {
  const [program, ...script] = ownCommand();
  const file = flags.config === undefined ? [] : ["--config", flags.config];
  const set = flags.set === undefined ? [] : ["--set", ...flags.set];
  const child = spawnSync(program, [...script, "config", "--ignore-unknown", ...file, ...set], {
    encoding: "utf8",
    env,
  });
  if (child.status === 0) return JSON.parse(child.stdout) as Loaded;
  const stderr = child.stderr.trim().replaceAll(/^switchback: /gm, "");
  throw new SwitchbackError(
    "config-invalid",
    stderr || `cannot read the configuration: ${child.error ?? child.signal}`,
  );
}
