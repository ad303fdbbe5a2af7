/** A plain text table, indented by two, columns as wide as their longest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [head, ...rows];
  const widths = head.map((_title, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)));
  const render = (row: readonly string[]) =>
    `  ${row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()}\n`;
  return [head, widths.map((width) => "-".repeat(width)), ...rows].map(render).join("");
}
