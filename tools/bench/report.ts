/** A measured value and, if there is one, its goal. */
interface Figure {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** Maximum for the value. */
  readonly goal?: number | undefined;
  /** Minimum for the value. */
  readonly atLeast?: number | undefined;
}

export interface Reporter {
  /** Starts a section: describes the figures that follow, such as `{ names: 10000 }`. */
  section(of: Readonly<Record<string, number | string>>): void;
  figure(figure: Figure): void;
}

/** Prints each figure at once: one JSON object per line, or a table row for people. */
export function createReporter(bench: string, json: boolean, out: NodeJS.WritableStream = process.stdout): Reporter {
  let current: Readonly<Record<string, number | string>> = {};
  return {
    section(of) {
      current = of;
      if (json) return;
      const words = Object.entries(of).map(([key, value]) => `${value} ${key}`);
      out.write(`\n${bench}, ${words.join(", ")}\n`);
    },
    figure({ name, value, unit, goal, atLeast }) {
      const rounded = round(value);
      const met = metOf(value, goal, atLeast);
      if (json) {
        out.write(`${JSON.stringify({ bench, ...current, figure: name, value: rounded, unit, goal, atLeast, met })}\n`);
        return;
      }
      const result = met === undefined ? "" : `   goal ${goal ?? `at least ${atLeast}`}: ${met ? "met" : "MISSED"}`;
      out.write(`  ${name.padEnd(34)} ${String(rounded).padStart(10)} ${unit.padEnd(8)}${result}\n`.trimEnd());
      out.write("\n");
    },
  };
}

function metOf(value: number, most: number | undefined, least: number | undefined): boolean | undefined {
  if (most !== undefined) return value <= most;
  return least === undefined ? undefined : value >= least;
}

/** Reports progress to the user. It goes to standard error, so that standard output has only figures. */
export function progress(text: string): void {
  process.stderr.write(`# ${text}\n`);
}

/** The value below which a share `q` of the values lies (nearest rank); NaN without values. */
export function percentile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}

/** Rounds to three digits: a measurement on a shared machine is not more precise. */
function round(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
