/** Lines may always have this length. A terminal that reports fewer columns breaks them itself. */
const MIN_COLUMNS = 40;

/**
 * Breaks one line at spaces so that no line is longer than `columns`. Breaks a word only if it is longer than a whole
 * line. Lines after the first begin with `indent` spaces. Without `columns` the line stays whole.
 */
export function wrap(text: string, columns: number | undefined, indent: number): string[] {
  if (columns === undefined) return [text];
  const width = Math.max(MIN_COLUMNS, columns);
  const lines: string[] = [];
  let margin = "";
  let at = 0;
  while (margin.length + text.length - at > width) {
    const part = text.slice(at, at + width - margin.length + 1);
    const space = part.lastIndexOf(" ");
    const end = space > part.search(/\S|$/) ? space : part.length - 1;
    lines.push(margin + part.slice(0, end).trimEnd());
    at += end;
    while (text[at] === " ") at += 1;
    margin = " ".repeat(indent);
  }
  return [...lines, margin + text.slice(at)];
}

/**
 * Wraps running text: lines after the first are indented by two more than the first. Each line ends with a line feed.
 */
export function brokenLines(text: string, columns: number | undefined): string {
  const indent = text.search(/\S|$/) + 2;
  return wrap(text, columns, indent)
    .map((line) => `${line}\n`)
    .join("");
}
