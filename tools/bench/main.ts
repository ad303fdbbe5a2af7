import { runBeside } from "./beside.ts";
import { createReporter, type Reporter } from "./report.ts";

// `npm run bench -- NAME [--json] [--beside TREE] [OPTIONS]`: runs one bench. `--json` prints one JSON object a line.
// `--beside TREE` runs the same bench in another tree in turns (beside.ts). The options are in the bench's file.

type Bench = (args: string[], report: Reporter) => Promise<void>;

const BENCHES: Readonly<Record<string, () => Promise<{ run: Bench }>>> = {
  controller: () => import("./controller.ts"),
  footprint: () => import("./footprint.ts"),
  proxy: () => import("./proxy/main.ts"),
  webhook: () => import("./webhook/main.ts"),
};

const [name = "", ...given] = process.argv.slice(2);
const load = Object.hasOwn(BENCHES, name) ? BENCHES[name] : undefined;
const args = given.filter((arg) => arg !== "--json");
const report = createReporter(name, args.length < given.length);
const beside = args.indexOf("--beside");
const [, tree] = beside === -1 ? [] : args.splice(beside, 2);
if (load === undefined || (beside !== -1 && tree === undefined)) {
  const names = Object.keys(BENCHES).join(" | ");
  process.stderr.write(`usage: npm run bench -- ${names} [--json] [--beside TREE] [more, see docs/performance.md]\n`);
  process.exitCode = 2;
} else if (tree === undefined) {
  await (await load()).run(args, report);
} else {
  await runBeside(tree, [name, ...args], report);
}
