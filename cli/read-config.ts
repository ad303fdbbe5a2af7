import { spawnSync } from "node:child_process";
import type { loadConfig } from "../config/load.ts";
import { SwitchbackError } from "../errors/errors.ts";
import type { ServeFlags } from "./serve.ts";

type Loaded = ReturnType<typeof loadConfig>;
type Env = Readonly<Record<string, string | undefined>>;

/**
 * The configuration, read by a process of its own, `switchback config`: the libraries that read and check it would stay in memory,
 * 18 MB of the agent's 60 on every node. Throws `config-invalid` with what that process said.
 */
export function configOfChild(flags: ServeFlags, env: Env): Loaded {
  const [, script = ""] = process.argv;
  const file = flags.config === undefined ? [] : ["--config", flags.config];
  const set = flags.set === undefined ? [] : ["--set", ...flags.set];
  const child = spawnSync(process.execPath, [script, "config", ...file, ...set], { encoding: "utf8", env });
  if (child.status === 0) return JSON.parse(child.stdout) as Loaded;
  const said = child.stderr.trim().replaceAll(/^switchback: /gm, "");
  throw new SwitchbackError(
    "config-invalid",
    said || `the configuration cannot be read: ${child.error ?? child.signal}`,
  );
}
