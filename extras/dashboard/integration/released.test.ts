import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { bundleCommand, MAIN } from "#tools/release/command/bundle.ts";
import { makeExecutable } from "#tools/release/command/executable.ts";

const TOP = fileURLToPath(new URL("../../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "switchback-dashboard-"));
let own: readonly string[];
before(async () => {
  own = await bundleCommand(TOP, folder);
});
after(() => rmSync(folder, { recursive: true }));

/** Asserts that a command without the dashboard's sources serves all files of the demo's dashboard. */
async function servesPage(program: string, ...args: string[]): Promise<void> {
  const child = spawn(program, [...args, "demo", "--dashboard"], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { HOME: folder, TMPDIR: folder },
  });
  try {
    let address: string | undefined;
    for await (const line of createInterface({ input: child.stdout })) {
      address = /^Dashboard on (\S+)$/.exec(line)?.[1];
      if (address !== undefined) break;
    }
    for (const [path, part] of [
      ["", "app.js"],
      ["app.js", "EventSource"],
      ["app.css", "color-scheme"],
      ["codes.json", "no-target"],
    ] as const) {
      const response = await fetch(new URL(path, address));
      assert.equal(response.status, 200, path);
      assert.ok((await response.text()).includes(part), path);
    }
  } finally {
    child.kill("SIGINT");
  }
  assert.deepEqual(await once(child, "exit"), [0, null]);
}

test("the released command serves the dashboard, and has the licenses of the packages in its page", async () => {
  await servesPage(process.execPath, join(folder, MAIN));
  const licenses = readFileSync(join(folder, "THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["preact", "uplot"]) assert.match(licenses, new RegExp(`^${name} \\d`, "m"));
});

test("an executable serves the dashboard", async () => {
  const output = join(folder, "kubectl-switchback");
  const platform = { os: "linux", arch: process.arch === "x64" ? "amd64" : "arm64" } as const;
  makeExecutable({ folder, own, node: process.execPath, platform, output });
  await servesPage(output);
});
