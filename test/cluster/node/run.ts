import { execFile } from "node:child_process";
import { NAMESPACES, type NamespaceName } from "./layout.ts";

const MAX_OUTPUT = 64 * 1024 * 1024;

/** A command of the machine that has failed. The message is one line: the command and the end of what it said. */
class CommandFailed extends Error {
  override readonly name = "CommandFailed";
}

/** Runs a program of the machine to its end; its standard output. */
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
 * The command line that runs a program in a network namespace. Not `ip netns exec`: that remounts /sys and hides
 * the cgroups.
 */
export function inNamespace(namespace: NamespaceName, command: string, args: string[]): [string, string[]] {
  return ["nsenter", [`--net=/run/netns/${NAMESPACES[namespace]}`, "--", command, ...args]];
}

export async function runIn(namespace: NamespaceName, command: string, ...args: string[]): Promise<string> {
  const [program, all] = inNamespace(namespace, command, args);
  return await run(program, ...all);
}
