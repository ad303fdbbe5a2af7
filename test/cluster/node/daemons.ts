import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { logTail, type Program } from "../processes.ts";
import { daemonGroup } from "./cgroup.ts";
import { LOGS, type NamespaceName } from "./layout.ts";
import { inNamespace } from "./run.ts";

export interface DaemonOptions {
  namespace: NamespaceName;
  env?: Record<string, string>;
}

/**
 * Starts a program in a network namespace and in the cluster's cgroup. Its output goes to `<logs>/<name>.log`. The
 * process enters the cgroup before it becomes the program, so that everything it starts is in the cgroup too. It keeps
 * running after this process has ended.
 */
export function startDaemon(name: string, command: string, args: string[], options: DaemonOptions): Program {
  const path = join(LOGS, `${name}.log`);
  const log = openSync(path, "a");
  const [program, all] = inNamespace(options.namespace, command, args);
  const enter = `echo $$ > "$0/cgroup.procs" && exec "$@"`;
  const child = spawn("/bin/sh", ["-c", enter, daemonGroup(), program, ...all], {
    detached: true,
    cwd: "/",
    stdio: ["ignore", log, log],
    env: { PATH: process.env.PATH, HOME: "/nonexistent", ...options.env },
  });
  closeSync(log);
  child.unref();
  let exited: string | undefined;
  child.once("error", (error) => {
    exited = String(error);
  });
  child.once("exit", (code, signal) => {
    exited = signal ?? `code ${code}`;
  });
  return {
    name,
    pid: child.pid ?? 0,
    get exited() {
      return exited;
    },
    logTail: () => logTail(path),
  };
}
