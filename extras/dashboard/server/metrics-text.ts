/** One series of Prometheus' text format. */
export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/**
 * The series of `text` whose names are wanted. Skips lines that it cannot parse: another release may have other ones.
 */
export function seriesIn(text: string, isWanted: (name: string) => boolean): Series[] {
  return text.split("\n").flatMap((line): Series[] => {
    const [, name = "", labels = "", value = ""] = LINE.exec(line) ?? [];
    if (name === "" || !isWanted(name)) return [];
    return [{ name, labels: labelsOf(labels), value: value === "+Inf" ? Number.POSITIVE_INFINITY : Number(value) }];
  });
}

function labelsOf(text: string): Record<string, string> {
  const entries = [...text.matchAll(LABEL)].map(([, name = "", value = ""]) => [name, unescaped(value)] as const);
  return Object.fromEntries(entries);
}

function unescaped(value: string): string {
  return value.replace(/\\(.)/g, (_, char: string) => (char === "n" ? "\n" : char));
}
