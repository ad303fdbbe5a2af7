import { printable } from "#lib/errors/printable.ts";

/** A row of a table. `notes` are lines below it. */
export interface Row {
  readonly cells: readonly string[];
  readonly notes?: readonly string[];
}

const GAP = "  ";
const NOTE_INDENT = "      ";

/**
 * Renders a plain text table, indented by two. Cells may hold text from tenants: it cannot start another line. Nothing
 * is shortened, so that a pipe gets every name whole.
 */
export function table(head: readonly string[], rows: readonly Row[]): string {
  const all = rows.map(({ cells, notes = [] }) => ({ cells: cells.map(printable), notes: notes.map(printable) }));
  const widths = head.map((title, column) =>
    all.reduce((widest, { cells }) => Math.max(widest, cells[column]?.length ?? 0), title.length),
  );
  const line = (cells: readonly string[]) =>
    `${GAP}${cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join(GAP)
      .trimEnd()}\n`;
  const noted = all.map(({ cells, notes }) => line(cells) + notes.map((note) => `${NOTE_INDENT}${note}\n`).join(""));
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...noted].join("");
}
