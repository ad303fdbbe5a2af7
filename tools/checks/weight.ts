import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

// `npm run weight`: prints the lines of each room, its limit in docs/architecture.md, and the row of that table with a
// limit that is 3 % above what the room has. Fails above a limit.

const PAGE = "docs/architecture.md";
const ROOMS = ["lib", "controller", "proxy", "webhook", "certs", "cli", "doctor", "extras", "manifests"];
const HARNESS = /^test\/|\/(?:conformance|fakes|integration|e2e|fixtures)\//;
const COMMENT = /^\s*(?:\/\/|\/?\*)/;
/** Row with the share of lines of comments in the product, in percent. Its limit is the least. */
const COMMENTS = "comments";

/** Lines of each room. `files`: path and text of every file of the repository. */
export function sumsOf(files: ReadonlyMap<string, string>): Map<string, number> {
  const linesOf = (isCounted: (file: string) => boolean) =>
    [...files].flatMap(([file, text]) => (isCounted(file) ? (text.match(/[^\n]*\n|[^\n]+$/g) ?? []) : []));
  const isTypeScript = (file: string) => /\.tsx?$/.test(file);
  const isTest = (file: string) => isTypeScript(file) && file.includes(".test.");
  const isOther = (file: string) => isTypeScript(file) && !isTest(file);
  const isTool = (file: string) => isOther(file) && /^tools\/|\/bench\//.test(file);
  const isHarness = (file: string) => isOther(file) && HARNESS.test(file) && !file.startsWith("tools/");
  const isProduct = (file: string) => isOther(file) && !isTool(file) && !isHarness(file);
  const product = linesOf(isProduct);
  const comments = product.filter((line) => COMMENT.test(line));
  return new Map([
    ...ROOMS.map((room) => [room, linesOf((file) => isProduct(file) && file.startsWith(`${room}/`)).length] as const),
    ["product", product.length],
    ["tools", linesOf(isTool).length],
    ["harness", linesOf(isHarness).length],
    ["tests", linesOf(isTest).length],
    ["all TypeScript", linesOf(isTypeScript).length],
    ["not TypeScript", linesOf((file) => !isTypeScript(file) && file !== "package-lock.json").length],
    ["files", files.size],
    [COMMENTS, Math.round((100 * comments.length) / product.length)],
  ]);
}

/** Compares a room with its limit in the page's table. Throws if the table has no row for it. */
export function weigh(room: string, now: number, page: string) {
  const [, text, aims] = new RegExp(`^\\| ${room} \\| ([\\d,]+) (\\|.+)$`, "m").exec(page) ?? [];
  if (text === undefined) throw new Error(`${PAGE} has no limit for ${room}`);
  const limit = Number(text.replaceAll(",", ""));
  const isLeast = room === COMMENTS;
  const isOver = isLeast ? now < limit : now > limit;
  const isSpare = !isLeast && limit > now * 1.05;
  const row = `| ${room} | ${numeral(isLeast ? limit : Math.ceil(now * 1.03))} ${aims}`;
  return { limit, row, verdict: isOver ? "OVER THE LIMIT" : isSpare ? "more than 5 % to spare" : "" };
}

function numeral(value: number): string {
  return value.toLocaleString("en");
}

if (import.meta.main) {
  const paths = execFileSync("git", ["ls-files", "-z"], { encoding: "utf8" }).split("\0").filter(existsSync);
  const page = readFileSync(PAGE, "utf8");
  for (const [room, now] of sumsOf(new Map(paths.map((path) => [path, readFileSync(path, "latin1")])))) {
    const { limit, row, verdict } = weigh(room, now, page);
    console.log(`${numeral(now).padStart(7)} of ${numeral(limit).padEnd(7)} ${row} ${verdict}`.trimEnd());
    if (verdict.startsWith("OVER")) process.exitCode = 1;
  }
}
