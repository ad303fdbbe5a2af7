import { existsSync } from "node:fs";
import { join } from "node:path";

// `npm run bench -- NAME [ARGUMENTS]`: NAME is a file beside this one that exports `run(arguments)`.

const [name = "", ...args] = process.argv.slice(2);
const file = join(import.meta.dirname, `${name}.ts`);
const bench: { run?: (argv: string[]) => Promise<void> } =
  /^[a-z]+$/.test(name) && name !== "main" && existsSync(file) ? await import(file) : {};
if (bench.run === undefined) {
  process.stderr.write(
    "usage: npm run bench -- controller | webhook | proxy | footprint | soak | current | commands | scale | rollout | dns | resolvers | publishers | traffic [--json] [more, see docs/performance.md]\n",
  );
  process.exitCode = 2;
} else {
  await bench.run(args);
}
