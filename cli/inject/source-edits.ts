/** Edits of a text, by offsets in the original text. */
export class SourceEdits {
  /** The original text, with a line ending at its end. */
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

  /** Inserts whole lines after the line that contains `offset`. `lines` have no line endings. */
  insertLines(offset: number, lines: readonly string[]): void {
    const at = this.nextLine(offset);
    this.replace(at, at, lines.map((line) => `${line}${this.eol}`).join(""));
  }

  /** Removes the lines from the one that contains `start` to the one in which the content before `end` ends. */
  removeLines(start: number, end: number): void {
    this.replace(this.lineStart(start), this.nextLine(end), "");
  }

  lineStart(offset: number): number {
    return this.text.lastIndexOf("\n", offset - 1) + 1;
  }

  /**
   * The start of the line after the content that ends at `offset`. If that content includes its line ending, `offset`
   * itself.
   */
  nextLine(offset: number): number {
    if (offset > 0 && this.text[offset - 1] === "\n") return offset;
    const feed = this.text.indexOf("\n", offset);
    return feed === -1 ? this.text.length : feed + 1;
  }

  /** The text before `offset` in its line, with spaces for everything that is not white space. */
  indentAt(offset: number): string {
    return this.text.slice(this.lineStart(offset), offset).replace(/\S/g, " ");
  }

  /** The white space at the start of the line that contains `offset`. */
  leadingAt(offset: number): string {
    return /^[ \t]*/.exec(this.text.slice(this.lineStart(offset), offset))?.[0] ?? "";
  }

  /**
   * The edited text. It ends with a line ending only if the original text did. Undefined if edits overlap. Edits at
   * the same offset keep their order.
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
