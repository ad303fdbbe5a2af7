import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";

/** Polls for at most 5 s. */
async function eventually(condition: () => Promise<boolean> | boolean): Promise<boolean> {
  for (let i = 0; i < 100; i++) {
    if (await condition()) return true;
    await delay(50);
  }
  return false;
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

const skip = process.platform !== "linux" && "only Linux ends programs with their parent";

describe("a component", () => {
  it("ends if its parent is killed", { skip }, async (t) => {
    const folder = await mkdtemp(join(tmpdir(), "switchback-processes-"));
    t.after(() => rm(folder, { recursive: true }));
    const script = `
      import { Processes } from ${JSON.stringify(new URL("processes.ts", import.meta.url).href)};
      const folder = process.argv[1];
      const component = new Processes(folder, folder).start("long", "sleep", ["60"]);
      console.log(component.pid);
      setInterval(() => {}, 1000);
    `;
    const owner = spawn(process.execPath, ["--input-type=module-typescript", "-e", script, folder], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(owner.stdout, "data");
    const pid = Number(line);
    assert.ok(isRunning(pid));
    owner.kill("SIGKILL");
    assert.ok(await eventually(() => !isRunning(pid)), "the component still runs");
  });
});
