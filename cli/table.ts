import { printable } from "#lib/errors/printable.ts";
import { paint, type Style } from "./output.ts";

/** A row of a table. `notes` are lines below it. */
export interface Row {
  readonly cells: readonly string[];
  /** The only painted cell, by its column, and its colour. */
  readonly painted?: { readonly column: number; readonly style: Style } | undefined;
  readonly notes?: readonly string[];
}

const GAP = "  ";
const NOTE_INDENT = "      ";

/**
 * Renders a plain text table, indented by two. Cells may hold text from tenants: it cannot start another line. Nothing
 * is shortened, so that a pipe gets every name whole.
 */
export function table(head: readonly string[], rows: readonly Row[]): string {
  const all = rows.map((row) => ({ ...row, cells: row.cells.map(printable) }));
  const widths = head.map((title, column) =>
    all.reduce((widest, { cells }) => Math.max(widest, cells[column]?.length ?? 0), title.length),
  );
  const line = ({ cells, painted }: Row) => {
    const padded = cells.map((cell, column) => {
      const padding = " ".repeat((widths[column] ?? 0) - cell.length);
      return (column === painted?.column ? paint(painted.style, cell) : cell) + padding;
    });
    return `${GAP}${padded.join(GAP).trimEnd()}\n`;
  };
  const titles = [{ cells: head }, { cells: widths.map((width) => "-".repeat(width)) }];
  const noted = all.map(
    (row) => line(row) + (row.notes ?? []).map((note) => `${NOTE_INDENT}${printable(note)}\n`).join(""),
  );
  return [...titles.map(line), ...noted].join("");
}
