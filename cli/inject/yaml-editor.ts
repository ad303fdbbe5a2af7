import { type Document, isMap, isNode, isSeq, type Node, type Pair, stringify, type YAMLMap, type YAMLSeq } from "yaml";
import type { SourceEdits } from "./source-edits.ts";
import {
  colonOf,
  contentEnd,
  dashOf,
  endOfPair,
  hasSource,
  pairOf,
  type Range,
  rangeOf,
  rangeOfPair,
  startOf,
} from "./yaml-ranges.ts";

export type Path = readonly (string | number)[];

/** kubectl reads YAML 1.1, where unquoted `yes` and `1:30` are not strings. */
const STYLE = { lineWidth: 0, compat: "yaml-1.1" } as const;
/** Columns to indent by if a document does not show its own indentation. */
const DEFAULT_STEP = 2;

/**
 * Changes a document twice: its nodes, and through edits its original text. Everything else keeps its layout. New
 * values follow the style around them: lines in a block collection, JSON in a flow collection. Text edits do not
 * cover every form of YAML (explicit keys, tags), so the caller compares the edited text with the nodes.
 */
export class YamlEditor {
  readonly #document: Document;
  readonly #source: SourceEdits;
  readonly #changes: (() => void)[] = [];

  constructor(document: Document, source: SourceEdits) {
    this.#document = document;
    this.#source = source;
  }

  /** Sets a value below the map at `at`. Creates maps on the way that are missing or empty. */
  set(at: Path, keys: readonly string[], value: unknown): void {
    let map = this.#document.getIn(at, true) as YAMLMap;
    let rest = keys;
    for (;;) {
      const [key = "", ...deeper] = rest;
      const child = map.get(key, true);
      if (deeper.length === 0 || !isMap(child) || child.items.length === 0) break;
      map = child;
      rest = deeper;
    }
    const [key = "", ...missing] = rest;
    const whole = missing.reduceRight((inner, step) => ({ [step]: inner }), value);
    const pair = pairOf(map, key);
    if (pair === undefined) this.#append(map, key, whole);
    else this.#replace(map, pair, whole);
  }

  /** Removes a key from the map at `at`. */
  remove(at: Path, key: string): void {
    const map = this.#document.getIn(at, true) as YAMLMap;
    const pair = pairOf(map, key);
    if (pair === undefined) return;
    const start = startOf(pair.key);
    if (map.flow) this.#cut(map.items.map(rangeOfPair), map.items.indexOf(pair));
    else this.#source.removeLines(start, endOfPair(pair));
    this.#changes.push(() => map.delete(key));
  }

  /** Removes items from a list in the map at `at`, and appends others. The list must not be empty. */
  setItems(at: Path, key: string, keep: (index: number) => boolean, added: readonly unknown[]): void {
    const map = this.#document.getIn(at, true) as YAMLMap;
    const pair = pairOf(map, key);
    const seq = pair?.value as YAMLSeq<Node>;
    if (seq.flow) this.#setFlowItems(pair, seq, keep, added);
    else this.#setBlockItems(map, seq, keep, added);
    this.#changes.push(() => {
      seq.items = [...seq.items.filter((_, index) => keep(index)), ...added.map((item) => this.#node(item))];
    });
  }

  /** Changes the nodes. Until then, they match the original text. */
  commit(): void {
    for (const change of this.#changes) change();
  }

  #append(map: YAMLMap, key: string, value: unknown): void {
    const items = map.items;
    const last = items.at(-1);
    // The map has a last pair, because `set` replaces an empty map instead of adding to it.
    if (last !== undefined && map.flow) {
      const at = endOfPair(last);
      const { separator, text } = this.#flowStyle(map, items.map(rangeOfPair), last);
      this.#source.replace(at, at, `,${separator}${JSON.stringify(key)}:${text(value)}`);
    } else if (last !== undefined) {
      const indent = this.#source.indentAt(startOf(items[0]?.key));
      this.#source.insertLines(endOfPair(last), blockLines({ [key]: value }, indent, this.#blockStyle(map)));
    }
    this.#changes.push(() => map.add(this.#document.createPair(key, value)));
  }

  #replace(map: YAMLMap, pair: Pair, value: unknown): void {
    const colon = colonOf(pair);
    const before = isNode(pair.value) && hasSource(pair.value) ? pair.value.range : undefined;
    const [start, end] = before ?? [colon, colon];
    if (map.flow) {
      const { text } = this.#flowStyle(map, map.items.map(rangeOfPair), pair);
      this.#source.replace(colon, end, text(value));
    } else if (typeof value === "string") {
      const ending = this.#source.text.slice(start, end).endsWith("\n") ? this.#source.eol : "";
      this.#source.replace(start, end, `${before === undefined ? " " : ""}${scalar(value)}${ending}`);
    } else {
      const blanks = /\s*$/.exec(this.#source.text.slice(colon, start))?.[0].length ?? 0;
      this.#source.replace(start - blanks, end, "");
      const style = this.#blockStyle(map);
      const key = this.#source.indentAt(startOf(pair.key));
      this.#source.insertLines(end, blockLines(value, nestedIndent(value, key, style), style));
    }
    this.#changes.push(() => {
      pair.value = this.#node(value);
    });
  }

  #setBlockItems(map: YAMLMap, seq: YAMLSeq<Node>, keep: (index: number) => boolean, added: readonly unknown[]): void {
    const dash = (index: number) => dashOf(seq, index);
    for (const [index, item] of seq.items.entries()) {
      if (!keep(index)) this.#source.removeLines(dash(index), Math.max(dash(index) + 1, contentEnd(item)));
    }
    if (added.length === 0) return;
    const end = Math.max(dash(seq.items.length - 1) + 1, contentEnd(seq.items.at(-1)));
    this.#source.insertLines(end, blockLines(added, this.#source.indentAt(dash(0)), this.#blockStyle(map)));
  }

  #setFlowItems(
    pair: Pair | undefined,
    seq: YAMLSeq<Node>,
    keep: (index: number) => boolean,
    added: readonly unknown[],
  ): void {
    const ranges = seq.items.map(rangeOf);
    const kept = ranges.filter((_, index) => keep(index));
    const { separator, text } = this.#flowStyle(seq, ranges, pair);
    if (kept.length === seq.items.length) {
      const at = contentEnd(seq.items.at(-1));
      this.#source.replace(at, at, added.map((item) => `,${separator}${text(item).trimStart()}`).join(""));
      return;
    }
    const items = [
      ...kept.map(([start, end]) => this.#source.text.slice(start, end)),
      ...added.map((item) => text(item).trimStart()),
    ];
    const [first, last] = [ranges[0]?.[0] ?? 0, ranges.at(-1)?.[1] ?? 0];
    this.#source.replace(first, last, items.join(`,${separator}`));
  }

  /** Removes one of several ranges that commas separate. */
  #cut(ranges: readonly Range[], index: number): void {
    const [before, own, after] = [ranges[index - 1], ranges[index], ranges[index + 1]];
    if (own === undefined) return;
    if (after !== undefined) this.#source.replace(own[0], after[0], "");
    else this.#source.replace(before?.[1] ?? own[0], own[1], "");
  }

  /**
   * The style of a flow collection: the text after its commas, and the text of a new value. `sample` is one of its
   * pairs; it shows whether a space follows the colon.
   */
  #flowStyle(collection: YAMLMap | YAMLSeq, [first]: readonly Range[], sample?: Pair) {
    const { text: source, eol } = this.#source;
    const blank = sample === undefined || /\s/.test(source[colonOf(sample)] ?? "") ? " " : "";
    const [start, item] = [startOf(collection), first?.[0] ?? 0];
    if (!source.slice(start, item).includes("\n")) {
      const text = blank === "" ? JSON.stringify : inline;
      return { separator: blank, text: (value: unknown) => `${blank}${text(value)}` };
    }
    const [outer, inner] = [this.#source.leadingAt(start), this.#source.leadingAt(item)];
    const unit = inner.startsWith(outer) ? inner.slice(outer.length) : "";
    const pretty = (value: unknown) =>
      JSON.stringify(value, null, unit || DEFAULT_STEP).replaceAll("\n", `${eol}${inner}`);
    return { separator: `${eol}${inner}`, text: (value: unknown) => `${blank}${pretty(value)}` };
  }

  /** The style of block collections in the document. */
  #blockStyle(map: YAMLMap): BlockStyle {
    const step = " ".repeat(this.#step());
    return { step, list: indentsLists(map, this.#source) ? step : "" };
  }

  /** The number of columns by which the document indents its content, taken from its first nested map. */
  #step(): number {
    const { contents } = this.#document;
    const nested = isMap(contents) ? contents.items.find(({ value }) => isMap(value) && !value.flow) : undefined;
    const [first] = isMap(nested?.value) ? nested.value.items : [];
    if (nested === undefined || first === undefined) return DEFAULT_STEP;
    const columns =
      this.#source.indentAt(startOf(first.key)).length - this.#source.indentAt(startOf(nested.key)).length;
    return columns > 0 ? columns : DEFAULT_STEP;
  }

  #node(value: unknown): Node {
    return this.#document.createNode(value) as Node;
  }
}

interface BlockStyle {
  /** Indentation of a map relative to its key. */
  readonly step: string;
  /** Indentation of a list relative to its key. */
  readonly list: string;
}

/** A map or a list as lines in block style. */
function blockLines(value: unknown, indent: string, style: BlockStyle): string[] {
  if (Array.isArray(value)) {
    return value.flatMap((item) =>
      blockLines(item, `${indent}  `, style).map((line, index) =>
        index === 0 ? `${indent}- ${line.trimStart()}` : line,
      ),
    );
  }
  if (typeof value !== "object" || value === null) return [`${indent}${scalar(value)}`];
  return Object.entries(value).flatMap(([key, inner]) => {
    const head = `${indent}${scalar(key)}:`;
    if (typeof inner !== "object") return [`${head} ${scalar(inner)}`];
    return [head, ...blockLines(inner, nestedIndent(inner, indent, style), style)];
  });
}

/** The indentation of a map or list below a key. */
function nestedIndent(value: unknown, indent: string, { step, list }: BlockStyle): string {
  return `${indent}${Array.isArray(value) ? list : step}`;
}

function scalar(value: unknown): string {
  return stringify(value, STYLE).trimEnd();
}

/** A value on one line: JSON with spaces, as people write it. */
function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const entries = Object.entries(value).map(([key, item]) => `${JSON.stringify(key)}: ${inline(item)}`);
  return `{${entries.join(", ")}}`;
}

/** Whether lists are indented deeper than their keys, as in the map's first list. */
function indentsLists(map: YAMLMap, source: SourceEdits): boolean {
  const pair = map.items.find(({ value }) => isSeq(value) && !value.flow && isNode(value.items[0]) && value.srcToken);
  if (pair === undefined) return true;
  return source.indentAt(dashOf(pair.value as YAMLSeq, 0)).length > source.indentAt(startOf(pair.key)).length;
}
