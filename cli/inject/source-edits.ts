/** Edits of a text, by offsets of the text as it was read. */
export class SourceEdits {
  /** The text, with a line ending at its end. */
  readonly text: string;
  /** The line ending of the text. */
  readonly eol: string;
  readonly #edits: { readonly start: number; readonly end: number; readonly text: string }[] = [];

  readonly #isEnded: boolean;

  constructor(text: string) {
    this.eol = text.includes("\r\n") ? "\r\n" : "\n";
    this.#isEnded = text === "" || text.endsWith("\n");
    this.text = this.#isEnded ? text : `${text}${this.eol}`;
  }

  replace(start: number, end: number, text: string): void {
    this.#edits.push({ start, end, text });
  }

  /** Inserts whole lines, without line endings, after the line in which `offset` is. */
  insertLines(offset: number, lines: readonly string[]): void {
    const at = this.nextLine(offset);
    this.replace(at, at, lines.map((line) => `${line}${this.eol}`).join(""));
  }

  /** Removes the lines from that of `start` to that in which the content before `end` ends. */
  removeLines(start: number, end: number): void {
    this.replace(this.lineStart(start), this.nextLine(end), "");
  }

  lineStart(offset: number): number {
    return this.text.lastIndexOf("\n", offset - 1) + 1;
  }

  /**
   * The start of the line after the content that ends at `offset`; `offset` itself if that content has its line ending.
   */
  nextLine(offset: number): number {
    if (offset > 0 && this.text[offset - 1] === "\n") return offset;
    const feed = this.text.indexOf("\n", offset);
    return feed === -1 ? this.text.length : feed + 1;
  }

  /** What stands before `offset` in its line, with blanks for everything that is not white space. */
  indentAt(offset: number): string {
    return this.text.slice(this.lineStart(offset), offset).replace(/\S/g, " ");
  }

  /** The white space at the start of the line in which `offset` is. */
  leadingAt(offset: number): string {
    return /^[ \t]*/.exec(this.text.slice(this.lineStart(offset), offset))?.[0] ?? "";
  }

  /**
   * The edited text, with a line ending at its end only if the text had one. Undefined if edits overlap. Edits at one
   * offset keep their order.
   */
  apply(): string | undefined {
    const parts: string[] = [];
    let done = 0;
    for (const { start, end, text } of this.#edits.toSorted((left, right) => left.start - right.start)) {
      if (start < done) return undefined;
      parts.push(this.text.slice(done, start), text);
      done = end;
    }
    const edited = [...parts, this.text.slice(done)].join("");
    return this.#isEnded || !edited.endsWith(this.eol) ? edited : edited.slice(0, -this.eol.length);
  }
}
