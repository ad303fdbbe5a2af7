/** What the figures that follow are about, such as `{ names: 10000 }`. */
export type Section = Readonly<Record<string, number | string>>;

/** Takes the figures of a bench. */
export interface Reporter {
  section(of: Section): void;
  figure(name: string, value: number, unit: string): void;
}

/** Prints each figure at once: a row of a table, or with `json` one JSON object a line. */
export function createReporter(bench: string, json: boolean): Reporter {
  let current: Section = {};
  return {
    section(of) {
      const isNew = JSON.stringify(of) !== JSON.stringify(current);
      current = of;
      if (json || !isNew) return;
      const words = Object.entries(of).map(([key, value]) => `${value} ${key}`);
      process.stdout.write(`\n${[bench, ...words].join(", ")}\n`);
    },
    figure(name, value, unit) {
      const rounded = round(value);
      const line = json
        ? JSON.stringify({ bench, ...current, figure: name, value: rounded, unit })
        : `  ${name.padEnd(36)} ${String(rounded).padStart(10)} ${unit}`;
      process.stdout.write(`${line}\n`);
    },
  };
}

/** Reports the middle and the slow end of times in milliseconds. */
export function reportTimes(report: Reporter, name: string, times: readonly number[]): void {
  report.figure(`${name}-p50`, percentile(times, 0.5), "ms");
  report.figure(`${name}-p99`, percentile(times, 0.99), "ms");
}

/** Says on standard error what the bench does now. */
export function progress(text: string): void {
  process.stderr.write(`# ${text}\n`);
}

/** The value below which a share `q` of the values lies (nearest rank); NaN without values. */
export function percentile(values: readonly number[], q: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(q * sorted.length) - 1)] ?? Number.NaN;
}

/** The median of the ratios of values that were measured side by side. */
export function medianRatio(ours: readonly number[], theirs: readonly number[]): number {
  const ratios = ours.map((value, index) => value / (theirs[index] ?? Number.NaN));
  return percentile(
    ratios.filter((ratio) => !Number.isNaN(ratio)),
    0.5,
  );
}

/** Three digits: a measurement on a shared machine is not more precise. */
function round(value: number): number {
  return Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3));
}
