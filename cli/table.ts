/** Renders a plain text table, indented by two. Cells may hold text from tenants: terminal control characters are escaped. */
export function table(head: readonly string[], cells: readonly (readonly string[])[]): string {
  const rows = cells.map((row) => row.map(printable));
  const all = [head, ...rows];
  const widths = head.map((_title, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const render = (row: readonly string[]) =>
    `  ${row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()}\n`;
  return [head, widths.map((width) => "-".repeat(width)), ...rows].map(render).join("");
}

/** Escapes control and format characters. */
function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);
}
