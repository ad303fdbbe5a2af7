import { printable } from "#lib/errors/printable.ts";
import type { FORMATS } from "./command.ts";

/** What `-o` accepts. */
export type Format = (typeof FORMATS)[number];

/** A result that a command can print in every format. */
export interface Report {
  /** For programs: `json` and `yaml` both print this whole document. */
  readonly document: unknown;
  /** For scripts: values that other commands take as an argument, one per line. */
  readonly names: readonly string[];
  /** For people. */
  readonly text: string;
}

/** Renders a report. No other function knows the formats. */
export async function render(format: Format, { document, names, text }: Report): Promise<string> {
  switch (format) {
    case "json":
      return `${JSON.stringify(document, null, 2)}\n`;
    case "yaml": {
      const [{ Document }, { yamlText }] = await Promise.all([import("yaml"), import("./yaml-text.ts")]);
      // Aliases are hard to read for people and for simple parsers.
      return yamlText(new Document(document, { aliasDuplicateObjects: false }));
    }
    case "name":
      return names.map((name) => `${printable(name)}\n`).join("");
    default:
      return text;
  }
}
