import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const TOP = join(import.meta.dirname, "..", "..");
const run = promisify(execFile);

test("compiled to JavaScript as in the image, the engine loads its worker and relays", async () => {
  const { build, folders } = JSON.parse(await readFile(join(TOP, "manifests", "image-files.json"), "utf8")) as {
    build: string[];
    folders: string[];
  };
  const folder = await mkdtemp(join(tmpdir(), "switchback-compiled-"));
  try {
    const names = [...folders, "package.json", "tsconfig.json"];
    const isWanted = (path: string): boolean => !path.endsWith(".test.ts") && !path.includes("/conformance");
    await Promise.all(
      names.map((name) => cp(join(TOP, name), join(folder, name), { recursive: true, filter: isWanted })),
    );
    await symlink(join(TOP, "node_modules"), join(folder, "node_modules"));
    const [command = "", ...args] = build;
    await run(join(TOP, "node_modules", ".bin", command), args, { cwd: folder });
    const out = join(folder, build[build.indexOf("--outDir") + 1] ?? "");
    await cp(join(folder, "package.json"), join(out, "package.json"));
    const script = `
      import { checkEngine } from "${out}/proxy/engine-check.js";
      import { linuxEngine } from "${out}/proxy/linux/engine.js";
      await checkEngine(linuxEngine(2));
      process.stdout.write("relayed");`;
    const { stdout } = await run(process.execPath, ["--input-type=module", "-e", script], { cwd: out });
    assert.equal(stdout, "relayed");
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
