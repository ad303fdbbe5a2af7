import { existsSync, globSync } from "node:fs";
import { basename, join } from "node:path";

// `npm run bench -- NAME [ARGUMENTS]`: NAME is a file beside this one, the folder of a `main.ts`, or a file of an
// extra's folder `bench`. It exports `run(arguments)`.

const TOP = join(import.meta.dirname, "..", "..");

const [name = "", ...args] = process.argv.slice(2);
const ofExtras = globSync("extras/*/bench/*.ts", { cwd: TOP }).sort();
const ofExtra = ofExtras.filter((path) => basename(path) === `${name}.ts`).map((path) => join(TOP, path));
const own = [`${name}.ts`, join(name, "main.ts")].map((path) => join(import.meta.dirname, path));
const file = [...own, ...ofExtra].find((path) => existsSync(path));
const bench: { run?: (argv: string[]) => Promise<void> } =
  /^[a-z]+$/.test(name) && name !== "main" && file !== undefined ? await import(file) : {};
if (bench.run === undefined) {
  const added = ofExtras.map((path) => basename(path, ".ts")).join(" | ");
  process.stderr.write(
    "usage: npm run bench -- controller | webhook | proxy | footprint | soak | current | commands | scale | " +
      `rollout | traffic | ${added} [--json] [more, see docs/performance.md]\n`,
  );
  process.exitCode = 2;
} else {
  await bench.run(args);
}
