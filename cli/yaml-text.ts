import { type Document, Scalar, type ToStringOptions, visit } from "yaml";
import { printableLines } from "#lib/errors/printable.ts";

/**
 * Renders a YAML document whose values may hold text from tenants. The result is printable on a terminal, and still
 * has the same values when parsed.
 */
export function yamlText(document: Document, options: ToStringOptions = {}): string {
  // YAML decodes an escape only in double quotes. Elsewhere, an escape would change the value.
  visit(document, {
    Scalar(_key, node) {
      if (typeof node.value === "string" && printableLines(node.value) !== node.value) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  // Text in double quotes is valid in JSON, too.
  return printableLines(document.toString({ lineWidth: 0, doubleQuotedAsJSON: true, ...options }), yamlEscape);
}

function yamlEscape(char: string): string {
  const hex = (char.codePointAt(0) ?? 0).toString(16);
  return hex.length > 4 ? `\\U${hex.padStart(8, "0")}` : `\\u${hex.padStart(4, "0")}`;
}
