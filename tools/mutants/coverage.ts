import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** For each file, the spans of its text that ran, in order. */
export type Coverage = ReadonlyMap<string, readonly [start: number, end: number][]>;

/** The used part of the coverage that V8 writes for each process and worker thread that ends by itself. */
export interface Written {
  result: { url: string; functions: { ranges: Range[] }[] }[];
}

interface Range {
  startOffset: number;
  endOffset: number;
  count: number;
}

/** Reads the coverage that NODE_V8_COVERAGE wrote to `folder`, for the files below `tree`. */
export function readCoverage(folder: string, tree: string): Coverage {
  return merge(
    readdirSync(folder).flatMap((name) => parse(readFileSync(join(folder, name), "utf8"))),
    `${tree}/`,
  );
}

/** Parses one coverage file. Empty if the process was killed while it wrote the file. */
function parse(text: string): Written[] {
  try {
    return [JSON.parse(text) as Written];
  } catch {
    return [];
  }
}

/** The text that ran in any of the processes. Paths are relative to `prefix`. */
export function merge(written: Written[], prefix: string): Coverage {
  const painted = new Map<string, Uint8Array>();
  for (const { url, functions } of written.flatMap(({ result }) => result)) {
    const path = url.startsWith("file://") ? fileURLToPath(url) : "";
    if (!path.startsWith(prefix)) continue;
    const file = path.slice(prefix.length);
    const ran = paint(functions.flatMap(({ ranges }) => ranges));
    const before = painted.get(file);
    painted.set(file, before === undefined ? ran : union(before, ran));
  }
  return new Map([...painted].map(([file, ran]) => [file, spansOf(ran)]));
}

/** Whether any of the text from `start` to `end` ran. */
export function ran(coverage: Coverage, { file, start, end }: { file: string; start: number; end: number }): boolean {
  return coverage.get(file)?.some(([from, to]) => from < end && start < to) ?? false;
}

/** Marks the offsets that ran. Ranges are nested; the innermost range has the count of an offset. */
function paint(ranges: Range[]): Uint8Array {
  const outerFirst = ranges.sort((a, b) => b.endOffset - b.startOffset - (a.endOffset - a.startOffset));
  const painted = new Uint8Array(outerFirst[0]?.endOffset ?? 0);
  for (const { startOffset, endOffset, count } of outerFirst) painted.fill(count > 0 ? 1 : 0, startOffset, endOffset);
  return painted;
}

function union(a: Uint8Array, b: Uint8Array): Uint8Array {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  return long.map((value, offset) => value | (short[offset] ?? 0));
}

function spansOf(painted: Uint8Array): [number, number][] {
  const spans: [number, number][] = [];
  for (let start = painted.indexOf(1); start !== -1; ) {
    const end = painted.indexOf(0, start);
    spans.push([start, end === -1 ? painted.length : end]);
    start = end === -1 ? -1 : painted.indexOf(1, end);
  }
  return spans;
}
