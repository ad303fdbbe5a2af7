import { printable } from "#lib/errors/printable.ts";

import type { FORMATS } from "./options.ts";

/** What `-o` accepts. */
export type Format = (typeof FORMATS)[number];

/** A result that a command prints in any of the formats. */
export interface Report {
  /** For programs: `json` and `yaml` print this same document, whole. */
  readonly document: unknown;
  /** For scripts: what other commands take as an argument, one a line. */
  readonly names: readonly string[];
  /** For people. `wide`: with every column, and nothing shortened or wrapped. */
  readonly text: (wide: boolean) => Screen;
}

/**
 * A text for people, and what has to be known about it, such as that it is not all: for standard error, out of the
 * way of a pipe.
 */
export interface Screen {
  readonly text: string;
  readonly notes?: readonly string[];
}

/** Renders a report. The only place that knows the formats. */
export async function render(format: Format, report: Report): Promise<Screen> {
  switch (format) {
    case "json":
      return { text: `${JSON.stringify(report.document, null, 2)}\n` };
    case "yaml": {
      const [{ Document }, { yamlText }] = await Promise.all([import("yaml"), import("./yaml-text.ts")]);
      // Aliases would be hard to read for people and for simple parsers.
      return { text: yamlText(new Document(report.document, { aliasDuplicateObjects: false })) };
    }
    case "name":
      return { text: report.names.map((name) => `${printable(name)}\n`).join("") };
    default:
      return report.text(format === "wide");
  }
}
