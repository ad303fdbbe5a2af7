/** The parts of JSON Schema that the pages show. */
export interface JsonSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly anyOf?: readonly JsonSchema[];
}

/** A type for people: `integer`, `a | b`, or the alternatives joined by `or`. */
export function typeOf({ type, enum: values, anyOf }: JsonSchema): string {
  if (values !== undefined) return values.filter((value) => value !== "").join(" | ");
  if (anyOf === undefined) return type ?? "any";
  const choices = anyOf.map((choice) => (choice.properties ? code(shapeOf(choice)) : typeOf(choice)));
  return [...new Set(choices)].join(" or ");
}

/** The shape of an object, such as `{ service: { namespace, name } }`. */
function shapeOf({ properties }: JsonSchema): string {
  const keys = Object.entries(properties ?? {}).map(([key, child]) =>
    child.properties === undefined ? key : `${key}: ${shapeOf(child)}`,
  );
  return `{ ${keys.join(", ")} }`;
}

/** A Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}

export function code(text: string): string {
  return `\`${text}\``;
}

/** A row for each setting of a configuration: path, type, default and meaning. A list or a map is one setting. */
export function settingRows({ properties = {} }: JsonSchema, prefix = ""): string[][] {
  return Object.entries(properties).flatMap(([key, field]) => {
    const path = prefix + key;
    if (field.properties !== undefined) return settingRows(field, `${path}.`);
    const value =
      field.default === undefined || /^(config\.)?targets$/.test(path) ? "" : code(JSON.stringify(field.default));
    return [[code(path), typeOf(field), value, field.description ?? ""]];
  });
}
