import { execFile } from "node:child_process";
import { NAMESPACES, type NamespaceName } from "./layout.ts";

const MAX_OUTPUT = 64 * 1024 * 1024;

/** A command of the machine failed. The message is one line: the command and the last lines of its error output. */
class CommandFailed extends Error {
  override readonly name = "CommandFailed";
}

/** Runs a program of the machine until it ends. Returns its standard output. */
export async function run(command: string, ...args: string[]): Promise<string> {
  return await new Promise((resolve, reject) => {
    execFile(command, args, { maxBuffer: MAX_OUTPUT }, (error, stdout, stderr) => {
      if (error === null) return resolve(stdout);
      const said = stderr.trim().split("\n").slice(-3).join(" | ");
      reject(new CommandFailed(`${command} ${args.join(" ")}: ${said || error.message}`, { cause: error }));
    });
  });
}

/**
 * The command line that runs a program in a network namespace. `ip netns exec` is not used, because it remounts /sys
 * and hides the cgroups.
 */
export function inNamespace(namespace: NamespaceName, command: string, args: string[]): [string, string[]] {
  return ["nsenter", [`--net=/run/netns/${NAMESPACES[namespace]}`, "--", command, ...args]];
}

export async function runIn(namespace: NamespaceName, command: string, ...args: string[]): Promise<string> {
  const [program, all] = inNamespace(namespace, command, args);
  return await run(program, ...all);
}
