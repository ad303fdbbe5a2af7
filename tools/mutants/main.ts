import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { availableParallelism, homedir, tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type AnyNode, type Node, parse, type Token } from "acorn";
import { kindOf } from "#test/files.ts";
import { resolveImport } from "#test/import-names.ts";

const USAGE = `npm run mutants -- [options]
Changes production code of the last commit in clones, one mutant at a time, and counts which changes the unit tests
notice. A run that was interrupted goes on where it ended; its results are in ~/.cache/switchback/mutants.
  --sample N     that many mutants of each top folder; default: all
  --seed S       which ones; default: the commit
  --only PART    files whose path contains PART; may be repeated
  --jobs N       mutants at once; default: the number of cores
  --nearest N    stop after the N nearest test files that run the changed text; default: all
  --all-killers  do not stop at the first test file that notices a mutant: record all
`;

// --- Operators: each returns the replacements for a node. StrykerJS' names, where it has the operator. ---

type Edit = { readonly start: number; readonly end: number; readonly text: string };
/** A parsed file. */
type Tree = { readonly source: string; readonly root: AnyNode; readonly tokens: readonly Token[] };
type Operator = (node: AnyNode, ancestors: readonly AnyNode[], tree: Tree) => Iterable<Edit>;

/** An operator, and what replaces it. */
const ORDER = { "<": "<= >=", "<=": "< >", ">": ">= <=", ">=": "> <" };
const EQUALITY = { ...ORDER, "===": "!==", "!==": "===", "==": "!=", "!=": "==" };
const ARITHMETIC = { "+": "-", "-": "+", "*": "/", "/": "*", "%": "*" };
const ASSIGNMENT = { "+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "&&=": "||=", "||=": "&&=", "??=": "&&=" };
/** Each method and its opposite. */
const OPPOSITES = "some every min max startsWith endsWith toLowerCase toUpperCase trimStart trimEnd".split(" ");
/** Methods that only select or sort: their call is dropped. */
const DROPPED_METHODS = /^(charAt|filter|reverse|toReversed|slice|sort|toSorted|substring|trim)$/;

/** If two operators generate the same text of a file, the first one counts. */
const OPERATORS: Readonly<Record<string, Operator>> = {
  *ConditionalExpression(node) {
    const test = testOf(node);
    if (test && !isLoop(node)) yield replace(test, "true");
    if (test) yield replace(test, "false");
    const [first, last] = node.type === "SwitchCase" ? [node.consequent[0], node.consequent.at(-1)] : [];
    if (first && last) yield { start: first.start, end: last.end, text: "" };
  },
  *ConditionNegation(node, _, tree) {
    const test = testOf(node);
    if (test && !isLoop(node)) yield replace(test, `!(${textOf(tree, test)})`);
  },
  EqualityOperator: (node, _, tree) => swapOperator(node, tree, "BinaryExpression", EQUALITY),
  LogicalOperator: (node, _, tree) => swapOperator(node, tree, "LogicalExpression", { "&&": "||", "||": "&&" }),
  *NullishCoalescing(node, _, tree) {
    if (node.type !== "LogicalExpression" || node.operator !== "??") return;
    for (const side of [node.left, node.right]) yield replace(node, `(${textOf(tree, side)})`);
  },
  *ArithmeticOperator(node, _, tree) {
    // Not where a string is put together.
    if (node.type === "BinaryExpression" && (isText(node.left) || isText(node.right))) return;
    yield* swapOperator(node, tree, "BinaryExpression", ARITHMETIC);
  },
  AssignmentOperator: (node, _, tree) => swapOperator(node, tree, "AssignmentExpression", ASSIGNMENT),
  UpdateOperator: (node, _, tree) => swapOperator(node, tree, "UpdateExpression", { "++": "--", "--": "++" }),
  UnaryOperator: (node, _, tree) => swapOperator(node, tree, "UnaryExpression", { "-": "+", "+": "-" }),
  *BooleanLiteral(node, _, tree) {
    if (node.type === "Literal" && typeof node.value === "boolean") yield replace(node, `${!node.value}`);
    if (node.type !== "UnaryExpression" || node.operator !== "!") return;
    yield replace(node, `(${textOf(tree, node.argument)})`);
  },
  *NumericLiteral(node, ancestors) {
    if (node.type !== "Literal" || isKey(node, ancestors)) return;
    if (typeof node.value === "number") yield replace(node, `${node.value + 1}`);
    if (typeof node.value === "bigint") yield replace(node, `${node.value + 1n}n`);
  },
  *StringLiteral(node, ancestors) {
    if (!isText(node) || isKey(node, ancestors) || isSpecifier(node, ancestors) || isProse(node, ancestors)) return;
    yield replace(node, node.type === "Literal" && node.value === "" ? '"mutated"' : '""');
  },
  *Regex(node) {
    if (node.type !== "Literal" || !node.regex) return;
    const { pattern, flags } = node.regex;
    if (pattern.startsWith("^") && pattern !== "^") yield replace(node, `/${pattern.slice(1)}/${flags}`);
    if (/[^\\]\$$/.test(pattern)) yield replace(node, `/${pattern.slice(0, -1)}/${flags}`);
  },
  *BlockStatement(node, [, method]) {
    const isConstructor = method?.type === "MethodDefinition" && method.kind === "constructor";
    if (node.type === "BlockStatement" && node.body.length > 0 && !isConstructor) yield replace(node, "{}");
  },
  *ArrowFunction(node, _, tree) {
    if (node.type !== "ArrowFunctionExpression" || !node.expression || textOf(tree, node.body) === "undefined") return;
    // With the parentheses of `() => ({})`.
    const isWrapped = tree.source.slice(0, node.body.start).trimEnd().endsWith("(");
    const start = isWrapped ? tree.source.lastIndexOf("(", node.body.start) : node.body.start;
    const end = isWrapped ? tree.source.indexOf(")", node.body.end) + 1 : node.body.end;
    yield { start, end, text: "undefined" };
  },
  ArrayDeclaration: (node) => (node.type === "ArrayExpression" && node.elements[0] ? [replace(node, "[]")] : []),
  ObjectLiteral: (node) => (node.type === "ObjectExpression" && node.properties[0] ? [replace(node, "{}")] : []),
  *MethodExpression(node, _, tree) {
    if (node.type !== "CallExpression" || node.callee.type !== "MemberExpression") return;
    const { object, property, computed } = node.callee;
    if (computed || property.type !== "Identifier" || object.type === "Super") return;
    const place = OPPOSITES.indexOf(property.name);
    if (place !== -1) yield replace(property, OPPOSITES[place ^ 1] ?? "");
    if (DROPPED_METHODS.test(property.name)) yield replace(node, `(${textOf(tree, object)})`);
  },
  *CallRemoval(node) {
    if (node.type !== "ExpressionStatement") return;
    const { expression } = node;
    const call = expression.type === "AwaitExpression" ? expression.argument : expression;
    if (call.type === "CallExpression" || call.type === "ChainExpression") yield replace(node, ";");
  },
  *ReturnRemoval(node, _, tree) {
    if (node.type !== "ReturnStatement" || !node.argument || textOf(tree, node.argument) === "undefined") return;
    yield replace(node, "return;");
  },
  ThrowRemoval: (node) => (node.type === "ThrowStatement" ? [replace(node, ";")] : []),
  *SpreadRemoval(node, [parent]) {
    if (node.type === "SpreadElement") yield replace(node, parent?.type === "ObjectExpression" ? "...{}" : "...[]");
  },
};

type Span = Pick<Node, "start" | "end">;
const replace = ({ start, end }: Span, text: string): Edit => ({ start, end, text });
const textOf = ({ source }: Tree, { start, end }: Span) => source.slice(start, end);
const testOf = (node: AnyNode) => ("test" in node && node.type !== "SwitchCase" ? node.test : undefined);
const isLoop = ({ type }: AnyNode) =>
  type === "ForStatement" || type === "WhileStatement" || type === "DoWhileStatement";
const isText = (node: Node) => node.type === "TemplateLiteral" || ("value" in node && typeof node.value === "string");
const isKey = (node: AnyNode, [parent]: readonly AnyNode[]) =>
  parent !== undefined && "key" in parent && parent.key === node && !("computed" in parent && parent.computed);

/** Whether a literal is a module name, a directive, or a name in an import or export. */
function isSpecifier(node: AnyNode, [parent = node]: readonly AnyNode[]): boolean {
  const isSource = "source" in parent && parent.source === node;
  return isSource || "directive" in parent || "imported" in parent || "exported" in parent;
}

/** Three words in a row count as a sentence. */
const SENTENCE = /[a-z]{2,},? [a-z]+,? [a-z]+/i;
/** Calls and properties with texts for people: of a log, a schema, a command, a metric's help. */
const PROSE_CALLS = /^(trace|debug|info|warn|error|fatal|log|describe|description|option|argument)$/;
const PROSE_KEYS = /^(help|description|message)$/;

/**
 * Whether a literal is a text for people, which tests rightly do not repeat: it has three words in a row, is thrown,
 * or is in an argument of `new SomeError()` or PROSE_CALLS, or in a value of PROSE_KEYS. The search goes outwards up
 * to the next function.
 */
function isProse(node: AnyNode, ancestors: readonly AnyNode[]): boolean {
  const parts = node.type === "TemplateLiteral" ? node.quasis.map(({ value }) => value.raw) : [];
  if (SENTENCE.test(node.type === "Literal" ? String(node.value) : parts.join("0"))) return true;
  for (const around of ancestors) {
    if (/Function/.test(around.type)) return false;
    if (around.type === "ThrowStatement") return true;
    const isValue = around.type === "Property" && around.value.start <= node.start && node.end <= around.value.end;
    if (isValue && PROSE_KEYS.test(nameOf(around.key))) return true;
    if (around.type === "NewExpression" && /Error$/.test(nameOf(around.callee))) return true;
    if (around.type === "CallExpression" && PROSE_CALLS.test(nameOf(around.callee))) return true;
  }
  return false;
}

/** Name of the called function: `error` for `error()` and `log.error()`. */
function nameOf(node: AnyNode): string {
  return node.type === "MemberExpression" ? nameOf(node.property) : node.type === "Identifier" ? node.name : "";
}

/** Replaces the node's operator: the first one after the left operand, or the one beside the only operand. */
function* swapOperator(node: AnyNode, tree: Tree, type: string, swaps: Record<string, string>): Generator<Edit> {
  if (node.type !== type || !("operator" in node)) return;
  const { operator, end } = node;
  const from = "left" in node ? node.left.end : node.start;
  const token = tree.tokens.find((each) => each.start >= from && each.end <= end && textOf(tree, each) === operator);
  if (token === undefined) return;
  for (const text of swaps[operator]?.split(" ") ?? []) yield replace(token, text);
}

// --- Mutants ---

/** One change of a production file: `text` in place of `original`. */
type Mutant = Edit & {
  readonly file: string;
  readonly line: number;
  readonly operator: string;
  readonly original: string;
};
const keyOf = ({ file, start, end, text }: Mutant) => [file, start, end, text].join("\0");
export const apply = (source: string, edit: Edit) => source.slice(0, edit.start) + edit.text + source.slice(edit.end);
const topOf = ({ file }: Mutant) => file.split("/")[0] ?? "";
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

/** Throws SyntaxError if `source` is not TypeScript that Node can run. Offsets are those of `source`. */
function parseSource(source: string): Tree {
  const tokens: Token[] = [];
  const stripped = stripTypeScriptTypes(source);
  const root = parse(stripped, { ecmaVersion: "latest", sourceType: "module", allowHashBang: true, onToken: tokens });
  return { source, root, tokens };
}

/** Every node with its ancestors, nearest first; parents come before their children. */
function* walk(node: AnyNode, ancestors: readonly AnyNode[] = []): Generator<[AnyNode, readonly AnyNode[]]> {
  yield [node, ancestors];
  for (const child of Object.values(node).flat()) {
    if (child?.type !== undefined && "start" in child) yield* walk(child, [node, ...ancestors]);
  }
}

/** Every candidate of a file, in an order that depends only on the source. Some may not parse. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const tree = parseSource(source);
  const found = new Map<string, Mutant>();
  for (const [node, ancestors] of walk(tree.root)) {
    for (const [operator, editsOf] of Object.entries(OPERATORS)) {
      for (const edit of editsOf(node, ancestors, tree)) {
        const original = source.slice(edit.start, edit.end);
        const line = source.slice(0, edit.start).split("\n").length;
        const mutant = { file, line, operator, original, ...edit };
        if (original !== edit.text && !found.has(keyOf(mutant))) found.set(keyOf(mutant), mutant);
      }
    }
  }
  return [...found.values()];
}

/** Whether Node can load the mutant. If it cannot, every test fails, which says nothing about the tests. */
function isValid(source: string, edit: Edit): boolean {
  try {
    return parseSource(apply(source, edit)) !== undefined;
  } catch {
    return false;
  }
}

/**
 * Takes `size` valid mutants of each top folder, always the same ones for a seed. Each mutant's own hash decides its
 * place, so that a change of one file does not affect the sample of the others.
 */
function sampleOf(all: readonly Mutant[], size: number, seed: string, sources: Texts): Mutant[] {
  return [...Map.groupBy(all, topOf).values()].flatMap((group) => {
    const ranked = group.map((mutant) => ({ mutant, rank: sha256(`${seed}\0${keyOf(mutant)}`) }));
    const inOrder = ranked.sort((a, b) => (a.rank < b.rank ? -1 : 1)).map(({ mutant }) => mutant);
    const valid = inOrder.values().filter((mutant) => isValid(sources.get(mutant.file) ?? "", mutant));
    return valid.take(size).toArray();
  });
}

// --- The commit, and its tests ---

const ROOT = process.cwd();
const CACHE = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", "mutants");
const AROUND = /\.test\.ts$|^(test|tools\/release|examples|manifests)\/|\/(?:bench|conformance|integration|e2e)\//;
/** Milliseconds that a test file may take without a mutant; with one: at least, and as a multiple of that time. */
const [BASELINE_MS, MIN_TIMEOUT_MS, TIMEOUT_FACTOR] = [300_000, 30_000, 8];
/** Texts by the path of a file: its source, or its hash in git. */
type Texts = ReadonlyMap<string, string>;

const git = (...args: readonly string[]) =>
  execFileSync("git", args, { cwd: ROOT, encoding: "utf8", maxBuffer: 1e9, stdio: "pipe" }).trim();

/**
 * For each file, the files that import it or name it in a text, such as the script of a worker or a child process.
 * Type imports do not count, because they do not exist at run time.
 */
function importersOf(sources: Texts): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  for (const [file, source] of sources) {
    const code = stripTypeScriptTypes(source);
    // The second text has the paths of `join(ROOT, "cli", "main.ts")`.
    const named = [code, code.replaceAll('", "', "/")].flatMap((text) => text.match(/(?<=["'`])#?[\w./-]+/g) ?? []);
    for (const name of new Set(named)) {
      const paths = [resolveImport(dirname(file), name), normalize(name)].flatMap((path) => [path, `${path}.ts`]);
      for (const path of paths) if (sources.has(path)) importers.set(path, [...(importers.get(path) ?? []), file]);
    }
  }
  return importers;
}

/**
 * The unit tests that may run code of `file`: its own test first, then the nearest ones. Tests of the harness do not
 * count, nor those of the release, which need packages in the tree itself.
 */
function testsOf(file: string, { importers, sources }: Run): string[] {
  const reached = new Set([file.replace(/\.ts$/, ".test.ts"), file]);
  for (const path of reached) for (const importer of importers.get(path) ?? []) reached.add(importer);
  const isTest = (path: string) => /^(?!test\/|tools\/release\/).*\.test\.ts$/.test(path) && kindOf(path) === "unit";
  return [...reached].filter((path) => sources.has(path) && isTest(path));
}

/** The process groups of test files that run now. */
const groups = new Set<number>();

function stopGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has already ended.
  }
}

/** Clones the last commit, with the packages of this tree. Some tests ask git for the list of files. */
function clone(tree: string): string {
  git("clone", "--shared", "--quiet", ROOT, tree);
  fs.symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
  fs.mkdirSync(`${tree}.tmp`);
  return tree;
}

/** Runs one test file in its own process group, which has ended when this returns. The first failed test ends it. */
async function runTest(file: string, tree: string, timeout: number, coverage?: string) {
  const started = performance.now();
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  // A mutant that allocates forever fails before it affects the machine.
  const child = spawn(process.execPath, ["--max-old-space-size=2048", "--test-reporter=tap", file], {
    ...{ cwd: tree, detached: true, timeout, killSignal: "SIGKILL", stdio: ["ignore", "pipe", "ignore"] },
    env: { ...env, TMPDIR: `${tree}.tmp`, ...(coverage !== undefined && { NODE_V8_COVERAGE: coverage }) },
  });
  const pid = child.pid ?? 0;
  groups.add(pid);
  let failed: string | undefined;
  createInterface({ input: child.stdout as Readable }).on("line", (line) => {
    if (failed !== undefined || !/^\s*not ok \d+ - (?!.* # (?:TODO|SKIP))/.test(line)) return;
    failed = line.trim();
    stopGroup(pid);
  });
  // Processes that the test has left end too, so that none keeps the output open.
  child.once("exit", () => stopGroup(pid));
  const [code, signal] = await once(child, "close");
  groups.delete(pid);
  const isGreen = failed === undefined && code === 0;
  return { isGreen, ms: performance.now() - started, detail: failed ?? `ended by ${code ?? signal}` };
}

/** A green run of a test file. `ran` has the spans of each file's text that ran. */
type Baseline = { readonly ms: number; readonly ran: Readonly<Record<string, number[][]>> };

type Range = { readonly startOffset: number; readonly endOffset: number; readonly count: number };
type Covered = { readonly url: string; readonly functions: readonly { readonly ranges: readonly Range[] }[] };

/** Reads what NODE_V8_COVERAGE wrote for each process and thread that ended by itself. */
function readCoverage(folder: string, tree: string): Baseline["ran"] {
  const painted = new Map<string, Uint8Array>();
  const size = ({ startOffset, endOffset }: Range) => endOffset - startOffset;
  const covered = fs.readdirSync(folder).flatMap((name): Covered[] => {
    try {
      return JSON.parse(fs.readFileSync(join(folder, name), "utf8")).result;
    } catch {
      return []; // A killed process has left a part of its file.
    }
  });
  for (const { url, functions } of covered.filter((each) => each.url.startsWith(`file://${tree}/`))) {
    // Ranges are nested, and the innermost range has the count of an offset.
    const ranges = functions.flatMap((each) => each.ranges).sort((a, b) => size(b) - size(a));
    const own = new Uint8Array(ranges[0]?.endOffset ?? 0);
    for (const { startOffset, endOffset, count } of ranges) own.fill(Math.min(count, 1), startOffset, endOffset);
    const file = fileURLToPath(url).slice(tree.length + 1);
    const before = painted.get(file) ?? own;
    const either = own.map((ran, offset) => ran | (before[offset] ?? 0));
    painted.set(file, either);
  }
  const spansOf = (ran: Uint8Array) =>
    [...ran.join("").matchAll(/1+/g)].map(({ 0: { length }, index }) => [index, index + length]);
  return Object.fromEntries([...painted].map(([file, ran]) => [file, spansOf(ran)]));
}

/**
 * Runs each test file once on the unchanged tree, on its first request. Results are kept in CACHE until a file changes
 * that the test loads, or one that is neither TypeScript nor documentation. Throws if three attempts fail.
 */
function baselinesIn(tree: string, blobs: Texts): (test: string) => Promise<Baseline> {
  const others = [...blobs].filter(([file]) => !/\.(tsx?|md)$/.test(file)).join();
  const hashOf = (ran: Baseline["ran"]) =>
    sha256([process.version, others, ...Object.keys(ran).map((file) => blobs.get(file))].join());
  const measure = async (test: string): Promise<Baseline> => {
    const file = join(CACHE, "baselines", `${test.replaceAll("/", "-")}.json`);
    const kept = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")) : undefined;
    if (kept !== undefined && kept.hash === hashOf(kept.ran)) return kept;
    const failures: string[] = [];
    while (failures.length < 3) {
      const folder = fs.mkdtempSync(join(`${tree}.tmp`, "coverage-"));
      const { isGreen, ms, detail } = await runTest(test, tree, BASELINE_MS, folder);
      const ran = readCoverage(folder, tree);
      fs.rmSync(folder, { recursive: true });
      if (isGreen) fs.writeFileSync(file, JSON.stringify({ hash: hashOf(ran), ms, ran }));
      if (isGreen) return { ms, ran };
      failures.push(detail);
    }
    throw new Error(`${test} fails without any mutant: ${failures.join("; ")}`);
  };
  const known: Partial<Record<string, Promise<Baseline>>> = {};
  return (test) => {
    known[test] ??= measure(test);
    return known[test];
  };
}

// --- Judging ---

interface Run {
  readonly sources: Texts;
  readonly importers: ReadonlyMap<string, readonly string[]>;
  readonly baselineOf: (test: string) => Promise<Baseline>;
  readonly allKillers: boolean;
  readonly nearest: number;
}

/** `by`: the test files that noticed the mutant, and how. `not covered`: no test runs the changed text. */
type Result = Mutant & { readonly outcome: "killed" | "survived" | "not covered"; readonly by: readonly string[] };

async function judge(mutant: Mutant, tree: string, run: Run): Promise<Result> {
  const { file, start, end } = mutant;
  const source = run.sources.get(file) ?? "";
  const by: string[] = [];
  let outcome: Result["outcome"] = "not covered";
  let left = run.nearest;
  for (const test of testsOf(file, run)) {
    const { ms, ran } = await run.baselineOf(test);
    if (!ran[file]?.some(([from = 0, to = 0]) => from < end && start < to)) continue;
    left -= 1;
    fs.writeFileSync(join(tree, file), apply(source, mutant));
    const timeout = Math.max(MIN_TIMEOUT_MS, TIMEOUT_FACTOR * Math.ceil(ms));
    const first = await runTest(test, tree, timeout);
    // Only a test that fails again has noticed the mutant: on a busy machine, tests fail also without one.
    const { isGreen, detail } = first.isGreen ? first : await runTest(test, tree, timeout);
    fs.writeFileSync(join(tree, file), source);
    if (!isGreen) by.push(`${test}: ${detail}`);
    outcome = by.length > 0 ? "killed" : "survived";
    if ((!isGreen && !run.allKillers) || left === 0) break;
  }
  return { ...mutant, outcome, by };
}

function lineOf({ outcome, file, line, operator, original, text, by }: Result): string {
  const short = (code: string) => code.replace(/\s+/g, " ").slice(0, 60);
  return `${outcome}: ${file}:${line} ${operator}: ${short(original)} -> ${short(text)} ${short(by.join())}`;
}

/** The kill rate of each top folder, then what no test noticed. */
function report(results: readonly Result[]): string {
  const folders = [...Map.groupBy(results, topOf)].sort(([a], [b]) => (a < b ? -1 : 1));
  const rows = [...folders, ["all", results] as const].map(([name, group]) => {
    const killed = group.filter(({ outcome }) => outcome === "killed").length;
    return `${name.padEnd(12)} ${killed}/${group.length} ${((100 * killed) / group.length).toFixed(1)} %`;
  });
  const survivors = results.filter(({ outcome }) => outcome !== "killed").map(lineOf);
  return [...rows, "", ...survivors.sort(), ""].join("\n");
}

async function main(): Promise<void> {
  const text = { type: "string" } as const;
  const flag = { type: "boolean", default: false } as const;
  const texts = { ...text, multiple: true } as const;
  const { values } = parseArgs({
    options: { sample: text, seed: text, only: texts, jobs: text, nearest: text, "all-killers": flag, help: flag },
  });
  if (values.help) return void process.stdout.write(USAGE);
  const { seed = git("rev-parse", "HEAD"), only = [""], nearest = "Infinity", "all-killers": allKillers } = values;
  const top = fs.mkdtempSync(join(tmpdir(), "mutants-"));
  process.once("exit", () => {
    for (const pid of groups) stopGroup(pid);
    fs.rmSync(top, { recursive: true, force: true, maxRetries: 3 });
  });
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

  const entries = git("ls-tree", "-r", "HEAD").matchAll(/ blob (\w+)\t(.*)$/gm);
  const blobs = new Map([...entries].map(([, blob = "", file = ""]) => [file, blob]));
  const clean = clone(join(top, "clean"));
  const files = [...blobs.keys()].filter((file) => file.endsWith(".ts"));
  const sources = new Map(files.map((file) => [file, fs.readFileSync(join(clean, file), "utf8")]));
  const wanted = files.filter((file) => !AROUND.test(file) && only.some((part) => file.includes(part)));
  const all = wanted.flatMap((file) => mutantsOf(file, sources.get(file) ?? ""));
  const mutants = sampleOf(all, Number(values.sample ?? all.length), seed, sources);
  fs.mkdirSync(join(CACHE, "baselines"), { recursive: true });
  const log = join(CACHE, `${git("rev-parse", "HEAD^{tree}")}${allKillers ? "-all-killers" : ""}.jsonl`);
  const lines = fs.existsSync(log) ? fs.readFileSync(log, "utf8").trim().split("\n") : [];
  const known = new Map(lines.map((line) => [keyOf(JSON.parse(line)), JSON.parse(line) as Result]));
  const waiting = mutants.filter((mutant) => !known.has(keyOf(mutant)));
  process.stderr.write(`${mutants.length} of ${all.length} mutants, ${waiting.length} to judge; results: ${log}\n`);
  const [importers, baselineOf] = [importersOf(sources), baselinesIn(clean, blobs)];
  const run = { sources, importers, baselineOf, allKillers, nearest: Number(nearest) };
  const work = async (_: unknown, number: number): Promise<void> => {
    const tree = clone(join(top, `${number}`));
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const result = await judge(mutant, tree, run);
      known.set(keyOf(mutant), result);
      fs.appendFileSync(log, `${JSON.stringify(result)}\n`);
      process.stderr.write(`[${waiting.length} left] ${lineOf(result)}\n`);
    }
  };
  await Promise.all(Array.from({ length: Number(values.jobs ?? availableParallelism()) }, work));
  process.stdout.write(report(mutants.flatMap((mutant) => known.get(keyOf(mutant)) ?? [])));
}

if (import.meta.main) await main();
