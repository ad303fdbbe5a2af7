// Parses the server blocks of a Corefile as CoreDNS does (coredns/caddy, caddyfile/lexer.go and parse.go), but does
// not interpret the lines of plugins.

interface Token {
  readonly text: string;
  readonly line: number;
}

/** A plugin's line in a server block. */
interface Directive {
  readonly name: string;
  readonly args: readonly string[];
}

interface ServerBlock {
  readonly keys: readonly string[];
  readonly directives: readonly Directive[];
  /** Patterns that are imported inside the block. */
  readonly imports: readonly string[];
}

export interface Corefile {
  readonly blocks: readonly ServerBlock[];
  /** Patterns that are imported outside of server blocks. Their files contain whole server blocks. */
  readonly imports: readonly string[];
}

/** Why a Corefile cannot be used. */
class CorefileError extends Error {}

/** Far above the length of any Corefile: a ConfigMap has at most 1 MiB. */
const MAX_LENGTH = 2 * 1024 * 1024;

/** Parses a Corefile. @returns an error text for people if CoreDNS would refuse the file, or if it has no braces. */
export function parseCorefile(text: string): Corefile | string {
  if (text.length > MAX_LENGTH) return "it is too long";
  try {
    return new Parser(tokensOf(text)).parse();
  } catch (error) {
    if (error instanceof CorefileError) return error.message;
    throw error;
  }
}

/** A quoted token up to its end, a comment, the end of a line, other white space, or a token. */
const PART = /"([^"\\]*(?:\\[\s\S][^"\\]*)*)("?)|#[^\n]*|\n|[^\S\n]+|[^\s#]+/g;

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  for (const [part, quoted, close] of text.replaceAll("\r", "").matchAll(PART)) {
    if (quoted !== undefined) {
      // For CoreDNS, an unclosed quotation continues to the end of the file. The rest would not mean what it seems to
      // mean.
      if (close === "") throw new CorefileError(`line ${line}: a quotation mark without its counterpart`);
      tokens.push({ text: quoted.replaceAll('\\"', '"'), line });
      line += quoted.split("\n").length - 1;
    } else if (part === "\n") line += 1;
    else if (!/^[#\s]/.test(part)) tokens.push({ text: part, line });
  }
  return tokens;
}

class Parser {
  readonly #tokens: readonly Token[];
  readonly #blocks: ServerBlock[] = [];
  readonly #imports: string[] = [];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): Corefile {
    while (this.#at < this.#tokens.length) this.#parseOne();
    return { blocks: this.#blocks, imports: this.#imports };
  }

  #parseOne(): void {
    if (this.#isImport()) {
      this.#imports.push(this.#importPattern());
      return;
    }
    const keys = this.#keys();
    const [first = ""] = keys;
    const isSnippet = keys.length === 1 && first.startsWith("(") && first.endsWith(")");
    // A snippet takes effect where it is imported. Here it is enough to treat it as a block without names.
    this.#blocks.push({ keys: isSnippet ? [] : keys, ...this.#content() });
  }

  /** Consumes the names of a server block, and its `{`. After a comma, names may continue on the next line. */
  #keys(): string[] {
    const keys: string[] = [];
    let expectsAnother = true;
    for (; this.#tokens[this.#at]?.text !== "{"; this.#at += 1) {
      const text = this.#keyText(expectsAnother);
      expectsAnother = text.endsWith(",");
      const key = expectsAnother ? text.slice(0, -1) : text;
      if (key !== "") keys.push(key);
    }
    if (expectsAnother || keys.length === 0) throw this.#error("a server block without a name");
    this.#at += 1;
    return keys;
  }

  #keyText(expectsAnother: boolean): string {
    const text = this.#tokens[this.#at]?.text;
    if (text === undefined || (!expectsAnother && this.#isNewLine())) throw this.#error("a server block without `{`");
    if (text === "}" || this.#isImport()) throw this.#error(`\`${text}\` in place of a server block's name`);
    return text;
  }

  #content(): Omit<ServerBlock, "keys"> {
    const directives: Directive[] = [];
    const imports: string[] = [];
    for (;;) {
      const token = this.#tokens[this.#at];
      if (token === undefined) throw this.#error("`{` without `}`");
      if (token.text === "}") {
        this.#at += 1;
        return { directives, imports };
      }
      if (token.text === "import") imports.push(this.#importPattern());
      else directives.push(this.#directive());
    }
  }

  /** Consumes a plugin's line, with the lines in its braces. */
  #directive(): Directive {
    const name = this.#tokens[this.#at]?.text ?? "";
    const args: string[] = [];
    this.#at += 1;
    for (;;) {
      const text = this.#tokens[this.#at]?.text;
      if (text === "{") {
        this.#skipBraces();
        continue;
      }
      if (text === undefined || this.#isNewLine()) return { name, args };
      if (text === "}") throw this.#error("`}` in the line of a plugin, without `{`");
      args.push(text);
      this.#at += 1;
    }
  }

  /** Consumes `{` and everything up to its `}`, including that. */
  #skipBraces(): void {
    let nesting = 0;
    do {
      const text = this.#tokens[this.#at]?.text;
      if (text === undefined) throw this.#error("`{` without `}`");
      if (text === "{") nesting += 1;
      else if (text === "}") nesting -= 1;
      this.#at += 1;
    } while (nesting > 0);
  }

  /** Consumes `import PATTERN`. */
  #importPattern(): string {
    this.#at += 1;
    const pattern = this.#tokens[this.#at];
    if (pattern === undefined || this.#isNewLine()) throw this.#error("an import of nothing");
    this.#at += 1;
    if (this.#at < this.#tokens.length && !this.#isNewLine()) throw this.#error("an import of more than one pattern");
    return pattern.text;
  }

  #isImport(): boolean {
    return this.#tokens[this.#at]?.text === "import" && this.#isNewLine();
  }

  #isNewLine(): boolean {
    return this.#at === 0 || this.#tokens[this.#at]?.line !== this.#tokens[this.#at - 1]?.line;
  }

  #error(what: string): CorefileError {
    const { line = 1 } = this.#tokens[this.#at] ?? this.#tokens.at(-1) ?? {};
    return new CorefileError(`line ${line}: ${what}`);
  }
}
