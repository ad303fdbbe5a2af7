import { existsSync } from "node:fs";
import { join } from "node:path";

// `npm run bench -- NAME [ARGUMENTS]`: NAME is a file beside this one, or the folder of a `main.ts`, that exports
// `run(arguments)`.

const [name = "", ...args] = process.argv.slice(2);
const file = [`${name}.ts`, join(name, "main.ts")].map((path) => join(import.meta.dirname, path)).find(existsSync);
const bench: { run?: (argv: string[]) => Promise<void> } =
  /^[a-z]+$/.test(name) && name !== "main" && file !== undefined ? await import(file) : {};
if (bench.run === undefined) {
  process.stderr.write(
    "usage: npm run bench -- controller | webhook | proxy | footprint | soak | current | commands | scale | " +
      "rollout | dns | resolvers | publishers | traffic [--json] [more, see docs/performance.md]\n",
  );
  process.exitCode = 2;
} else {
  await bench.run(args);
}
