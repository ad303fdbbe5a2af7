import {
  type Document,
  isCollection,
  isScalar,
  type LineCounter,
  type ParsedNode,
  parseAllDocuments,
  type ScalarTag,
  type Tags,
  visit,
} from "yaml";

/** Spaces that were added to the text. */
interface Padding {
  readonly offset: number;
  readonly length: number;
}

export interface ParsedManifest {
  readonly documents: readonly Document.Parsed[];
  /** The text with the paddings. The offsets of the documents refer to it. */
  readonly padded: string;
  readonly paddings: readonly Padding[];
}

/** Maximum number of repairs. A repair may reveal the next fault, such as brackets after quotes. */
const MAX_REPAIRS = 10;

/**
 * Parses a file as kubectl does. libyaml, and with it kubectl, ignores the indentation of lines inside quotes and
 * brackets (go-yaml, scannerc.go: yaml_parser_scan_flow_scalar). YAML 1.2, and so the parser, requires them to be
 * indented deeper than their key. Such lines are indented before parsing; the caller removes these spaces again.
 */
export function parseManifest(text: string, lineCounter?: LineCounter): ParsedManifest {
  let parsed: ParsedManifest = { documents: parse(text), padded: text, paddings: [] };
  for (let repairs = 0; repairs < MAX_REPAIRS; repairs += 1) {
    const repaired = repair(parsed);
    if (repaired === undefined) break;
    parsed = repaired;
  }
  return lineCounter === undefined ? parsed : { ...parsed, documents: parse(parsed.padded, lineCounter) };
}

function parse(text: string, lineCounter?: LineCounter): readonly Document.Parsed[] {
  const options = { customTags: keepNumbers, keepSourceTokens: true };
  return [...parseAllDocuments<ParsedNode>(text, lineCounter === undefined ? options : { ...options, lineCounter })];
}

/**
 * Indents the quotes and brackets that stop the parser. Undefined if there are none, or if more indentation does not
 * help.
 */
function repair({ documents, padded, paddings }: ParsedManifest): ParsedManifest | undefined {
  const added = documents
    .flatMap((document) => brokenStarts(document))
    .flatMap((start) => {
      const length = start - padded.lastIndexOf("\n", start);
      return continuationLines(padded, start).map((offset) => ({ offset, length }));
    });
  const isTried = new Set(paddings.map(({ offset }) => offset));
  const fresh = added.filter(({ offset }, index) => !isTried.has(offset) && offset > (added[index - 1]?.offset ?? 0));
  if (fresh.length === 0) return undefined;
  let text = "";
  let done = 0;
  let next = 0;
  const all: Padding[] = [];
  const keepBefore = (offset: number) => {
    for (let old = paddings[next]; old !== undefined && old.offset < offset; old = paddings[++next]) {
      all.push({ ...old, offset: old.offset + text.length - done });
    }
  };
  for (const { offset, length } of fresh) {
    keepBefore(offset);
    text += padded.slice(done, offset);
    done = offset;
    all.push({ offset: text.length, length });
    text += " ".repeat(length);
  }
  keepBefore(Number.POSITIVE_INFINITY);
  text += padded.slice(done);
  return { documents: parse(text), padded: text, paddings: all };
}

/** The starts of the quotes and brackets that end too early for the parser: only the outermost one at each place. */
function brokenStarts(document: Document.Parsed): number[] {
  const errors = document.errors.flatMap(({ message, pos: [offset] }) => {
    if (/^Missing closing ["']quote/.test(message)) return [{ offset, isQuote: true }];
    return /^Flow \w+ in block collection/.test(message) ? [{ offset, isQuote: false }] : [];
  });
  if (errors.length === 0) return [];
  const flows: { start: number; isQuote: boolean }[] = [];
  visit(document, {
    Node(_key, node) {
      const isFlow = isCollection(node) && node.flow === true;
      const isQuote = isScalar(node) && /^QUOTE/.test(node.type ?? "");
      if (node.range && (isFlow || isQuote)) flows.push({ start: node.range[0], isQuote });
      return isFlow ? visit.SKIP : undefined;
    },
  });
  let next = 0;
  return errors.flatMap(({ offset, isQuote }) => {
    let found: number | undefined;
    for (let flow = flows[next]; flow !== undefined && flow.start <= offset; flow = flows[++next]) {
      if (isQuote || !flow.isQuote) found = flow.start;
    }
    return found ?? [];
  });
}

/** Matches a bracket, or a whole quote or comment, so that the brackets in it do not count. */
const FLOW_TOKEN = /(?<![^\s[{,:])(?:"(?:\\[\s\S]|[^"\\])*"|'(?:''|[^'])*'|#.*)|[[\]{}]/g;
const CONTINUED = /\n(?=[ \t]*[^\s])/g;
const MARKER = /^(?:---|\.\.\.)(?:\s|$)/m;

/** The starts of the lines that continue the quotes or brackets at `start`, without blank lines. */
function continuationLines(text: string, start: number): number[] {
  let depth = 0;
  FLOW_TOKEN.lastIndex = start;
  for (let token = FLOW_TOKEN.exec(text); token !== null; token = FLOW_TOKEN.exec(text)) {
    if ("[{".includes(token[0])) depth += 1;
    else if ("]}".includes(token[0])) depth -= 1;
    if (depth > 0) continue;
    const inside = text.slice(start, FLOW_TOKEN.lastIndex);
    // A document marker cannot be inside quotes or brackets (YAML 1.2, c-forbidden).
    if (MARKER.test(inside)) return [];
    return [...inside.matchAll(CONTINUED)].map(({ index }) => start + index + 1);
  }
  return [];
}

/**
 * Prints numbers in their original notation. YAML 1.2 reads `defaultMode: 0644` as 644, but kubectl (YAML 1.1) reads
 * it as octal. A number may also have more digits than a double can hold.
 */
function keepNumbers(tags: Tags): Tags {
  const numbers = ["tag:yaml.org,2002:int", "tag:yaml.org,2002:float"];
  return tags.map((tag) => {
    if (typeof tag !== "object" || !numbers.includes(tag.tag)) return tag;
    const { stringify } = tag as ScalarTag;
    return {
      ...(tag as ScalarTag),
      stringify: (node, ...rest) => node.source ?? stringify?.(node, ...rest) ?? String(node.value),
    } satisfies ScalarTag;
  });
}
