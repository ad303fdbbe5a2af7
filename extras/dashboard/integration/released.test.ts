import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { bundleCommand } from "#tools/release/bundle.ts";

const TOP = fileURLToPath(new URL("../../..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "switchback-dashboard-"));
before(() => bundleCommand(TOP, folder));
after(() => rmSync(folder, { recursive: true }));

test("the released command serves all files of the demo's dashboard without its sources", async () => {
  const child = spawn(process.execPath, [join(folder, "cli/main.js"), "demo", "--dashboard"], {
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
});

test("the released command has the licenses of the packages in its page", () => {
  const licenses = readFileSync(join(folder, "THIRD-PARTY-LICENSES"), "utf8");
  for (const name of ["preact", "uplot"]) assert.match(licenses, new RegExp(`^${name} \\d`, "m"));
});
