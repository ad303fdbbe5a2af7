import assert from "node:assert/strict";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { openInBrowser } from "./open-browser.ts";

const ADDRESS = "http://127.0.0.1:1/secret/";

test("the browser gets a file that only its owner can read, and no secret among its arguments", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "switchback-browser-"));
  t.after(() => rm(folder, { recursive: true }));
  const said = join(folder, "arguments");
  await writeFile(join(folder, "xdg-open"), `#!/bin/sh\necho "$@" > ${said}.partial\nmv ${said}.partial ${said}\n`);
  await chmod(join(folder, "xdg-open"), 0o755);
  const path = process.env.PATH;
  process.env.PATH = `${folder}:${path}`;
  const opened = await openInBrowser(ADDRESS, { DISPLAY: ":0" }, "linux").finally(() => {
    process.env.PATH = path;
  });
  assert.ok(opened);
  const read = async (): Promise<string> =>
    await readFile(said, "utf8").catch(async () => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      return await read();
    });
  const argument = (await read()).trim();
  assert.ok(!argument.includes("secret"));
  const file = fileURLToPath(argument);
  assert.ok((await readFile(file, "utf8")).includes(`url=${ADDRESS}"`));
  assert.equal((await stat(file)).mode & 0o077, 0);
  await opened.remove();
  await assert.rejects(stat(file), { code: "ENOENT" });
});

test("without a screen, nothing is opened", async () => {
  assert.equal(await openInBrowser(ADDRESS, {}, "linux"), undefined);
});

test("on a desktop without a browser, opening does not fail", async () => {
  const path = process.env.PATH;
  process.env.PATH = "/nonexistent";
  const opened = await openInBrowser(ADDRESS, { WAYLAND_DISPLAY: "w" }, "linux").finally(() => {
    process.env.PATH = path;
  });
  await opened?.remove();
});
