import { globSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readmeOf, securityPolicyOf } from "../names.ts";
import { gzip } from "../oci/layout.ts";
import { tarOf } from "../oci/tar.ts";
import type { Release, ReleasePart } from "../part.ts";
import { bundleCommand, MAIN } from "./bundle.ts";

const BIN = "cli/bin.js";

/**
 * `switchback-npm-VERSION.tgz`: the command as npm would pack it, without dependencies. It runs on each Node that is
 * still maintained.
 */
export const npmPackage: ReleasePart = { name: "npm", make: makePackage };

async function makePackage(release: Release): Promise<readonly string[]> {
  const { out, source, version, epochSeconds } = release;
  const folder = await mkdtemp(join(tmpdir(), "switchback-npm-"));
  try {
    await bundleCommand(source, folder);
    writeFileSync(join(folder, BIN), binOfBundle(readFileSync(join(source, BIN), "utf8")));
    writeFileSync(join(folder, "README.md"), readmeOf(release));
    writeFileSync(join(folder, "SECURITY.md"), securityPolicyOf(release));
    const paths = globSync("**/*", { cwd: folder, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1))
      .sort();
    const files = paths.map(async (path) => ({
      path: `package/${path}`,
      content: await readFile(join(folder, path)),
      mode: path === BIN ? 0o755 : 0o644,
    }));
    const name = npmPackageFile({ version });
    await writeFile(join(out, name), await gzip(await tarOf(await Promise.all(files), epochSeconds)));
    return [name];
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The release file that npm installs. Without `npm` in its name, it would have the chart's name. */
export function npmPackageFile({ version }: Pick<Release, "version">): string {
  return `switchback-npm-${version}.tgz`;
}

/** The first file of the command as in the repository, except that it starts the bundle. */
function binOfBundle(text: string): string {
  const changed = text.replace("./main.ts", `./${MAIN.split("/").at(-1)}`);
  if (changed === text) throw new Error(`${BIN} does not start ./main.ts`);
  return changed;
}
