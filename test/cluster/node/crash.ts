import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { members } from "./cgroup.ts";
import { NotHere } from "./requirements.ts";

const MAIN = join(import.meta.dirname, "main.ts");
/** A line of `up`'s output. After it, most of the work is half done: programs run, pods start, volumes are mounted. */
const HALF_WAY = "waiting for cluster DNS";

/**
 * Kills an `up` half-way, together with the tool that it runs at that moment. So the next `up` must clean up after a
 * crash. @throws NotHere if `up` ends by itself; then `up` has printed the reason.
 */
export async function crashDuringUp(): Promise<void> {
  const child = spawn(process.execPath, [MAIN, "up", "--bare"], {
    detached: true,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const ended = once(child, "close");
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    process.stderr.write(text);
    said += text;
    const isHere = child.exitCode === null && child.signalCode === null && child.pid !== undefined;
    if (isHere && said.includes(HALF_WAY)) process.kill(-child.pid, "SIGKILL");
  });
  const [, signal] = await ended;
  if (signal !== "SIGKILL") throw new NotHere("`up` has ended before it could be killed half-way");
  if ((await members([])).length === 0)
    throw new Error("the killed `up` has left no process, so its removal was not tested");
}
