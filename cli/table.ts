import { printable } from "#lib/errors/printable.ts";
import { shorten, wrap } from "./layout.ts";
import { paint, type Style } from "./output.ts";

/** A row of a table. `notes` are lines below it, which are wrapped and never shortened. */
export interface Row {
  readonly cells: readonly string[];
  /** The only painted cell, by its column, and its colour. */
  readonly painted?: { readonly column: number; readonly style: Style } | undefined;
  readonly notes?: readonly string[];
}

interface Table {
  readonly text: string;
  /** Whether cells were shortened to fit. */
  readonly shortened: boolean;
}

const INDENT = 2;
const NOTE_INDENT = 6;
const GAP = 2;

/** Renders a plain text table, indented by two. Cells may hold text from tenants: it cannot start another line. */
export function table(head: readonly string[], cells: readonly (readonly string[])[]): string {
  return tableWithNotes(
    head,
    cells.map((row) => ({ cells: row })),
  ).text;
}

/**
 * Renders a table with notes below rows. With `columns`, no line is longer than that: the widest columns are
 * shortened evenly.
 */
export function tableWithNotes(head: readonly string[], rows: readonly Row[], columns?: number): Table {
  const all = [head, ...rows.map(({ cells }) => cells.map(printable))];
  const natural = head.map((_title, column) =>
    all.reduce((widest, row) => Math.max(widest, row[column]?.length ?? 0), 0),
  );
  const widths = columns === undefined ? natural : fit(natural, columns - INDENT - GAP * (head.length - 1));
  const render = (cells: readonly string[], painted?: Row["painted"]) => {
    const line = cells.map((cell, column) => {
      const text = shorten(cell, widths[column] ?? 0);
      const padding = " ".repeat(Math.max(0, (widths[column] ?? 0) - text.length));
      return (column === painted?.column ? paint(painted.style, text) : text) + padding;
    });
    return `${" ".repeat(INDENT)}${line.join(" ".repeat(GAP)).trimEnd()}\n`;
  };
  const note = (text: string) => {
    const lines = wrap(`${" ".repeat(NOTE_INDENT)}${printable(text)}`, columns, NOTE_INDENT + GAP);
    return lines.map((line) => `${line}\n`).join("");
  };
  const lines = rows.map(({ notes = [], painted }, index) => {
    return render(all[index + 1] ?? [], painted) + notes.map(note).join("");
  });
  const shortened = widths.some((width, column) => width < (natural[column] ?? 0));
  return { text: [render(head), render(widths.map((width) => "-".repeat(width))), ...lines].join(""), shortened };
}

/** Shortens the widest columns by one character at a time, until all fit into `total`. */
function fit(natural: readonly number[], total: number): number[] {
  const widths = natural.map((width) => Math.min(width, total));
  for (let sum = widths.reduce((one, other) => one + other, 0); sum > total; sum -= 1) {
    const widest = Math.max(...widths);
    widths[widths.indexOf(widest)] = widest - 1;
  }
  return widths;
}
