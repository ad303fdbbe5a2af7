import { hash } from "node:crypto";
import { getOrAdd } from "#hostmap/multi-map.ts";

/** Metrics in Prometheus' text format. */
export interface MetricsText {
  readonly contentType: string;
  metrics(): string | Promise<string>;
}

/** 48 bits, which a double represents exactly. */
const HASH_DIGITS = 12;

/** The labels of a series: values by label name. Values may contain any text, because they are escaped. */
export type Labels = Readonly<Record<string, string | number>>;
/** One series of a metric at the time of a scrape. */
export type Sample = readonly [labels: Labels, value: number];

/** Reads the series of a metric at a scrape. A number is a single series without labels. */
type Collect = () => number | Iterable<Sample>;

/** A counter of events. */
export interface Counter {
  /** `by` must not be negative. */
  inc(by?: number): void;
}

/** A counter with one series for each set of labels. A series exists from its first event. */
interface LabelledCounter {
  inc(labels: Labels): void;
}

/** Counts observations by size. */
interface Histogram {
  observe(value: number): void;
}

/** The counts of one series of a histogram. */
interface HistogramCounts {
  readonly labels: Labels;
  /** Observations in each bucket, not cumulative. The last bucket has those above all bounds. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/**
 * A component's metrics in Prometheus' text format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Most values exist already when a scrape asks for
 * them, so a metric is a function that reads them. A client library would keep a second copy, for 7 MB of memory in
 * each process (docs/decisions).
 */
export class MetricsRegistry implements MetricsText {
  readonly contentType = "text/plain; version=0.0.4; charset=utf-8";
  /** By name: reads the text of a metric. */
  readonly #metrics = new Map<string, () => string>();

  /** Adds a gauge whose value is read at each scrape. Throws if the name is taken. */
  gauge(name: string, help: string, collect: Collect): void {
    this.#add(name, help, "gauge", () => sampleLines(name, collect()));
  }

  /** Adds a counter whose count is kept elsewhere and read at each scrape. */
  counterOf(name: string, help: string, collect: Collect): void {
    this.#add(name, help, "counter", () => sampleLines(name, collect()));
  }

  /** Adds a counter without labels. */
  counter(name: string, help: string): Counter {
    let count = 0;
    this.counterOf(name, help, () => count);
    return {
      inc(by = 1) {
        count += by;
      },
    };
  }

  /** Adds a counter with labels. Label values must be bounded: each set of labels exists until the process ends. */
  labelledCounter(name: string, help: string): LabelledCounter {
    const series = new Map<string, [Labels, number]>();
    this.counterOf(name, help, () => series.values());
    return {
      inc(labels) {
        // Every call has the same labels, in this order. JSON.stringify takes longer.
        let key = "";
        for (const label in labels) key += `${labels[label]}\n`;
        const sample = getOrAdd<string, [Labels, number]>(series, key, () => [labels, 0]);
        sample[1] += 1;
      },
    };
  }

  /** Adds a histogram without labels. `bounds` are the inclusive upper bounds of its buckets, in ascending order. */
  histogram(name: string, help: string, bounds: readonly number[]): Histogram {
    const counts = new Array<number>(bounds.length + 1).fill(0);
    let sum = 0;
    this.histogramOf(name, help, bounds, () => [{ labels: {}, counts, sum }]);
    return {
      observe(value) {
        const bucket = bounds.findIndex((bound) => value <= bound);
        const index = bucket === -1 ? bounds.length : bucket;
        counts[index] = (counts[index] ?? 0) + 1;
        sum += value;
      },
    };
  }

  /** Adds a histogram whose counts are kept elsewhere and read at each scrape. */
  histogramOf(name: string, help: string, bounds: readonly number[], collect: () => Iterable<HistogramCounts>): void {
    this.#add(name, help, "histogram", () => Array.from(collect(), (one) => bucketLines(name, one, bounds)).join(""));
  }

  /** Reads every metric now. */
  metrics(): string {
    return Array.from(this.#metrics.values(), (read) => read()).join("");
  }

  #add(name: string, help: string, type: "counter" | "gauge" | "histogram", lines: () => string): void {
    if (this.#metrics.has(name)) throw new RangeError(`the metric ${name} exists already`);
    const head = `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n`;
    this.#metrics.set(name, () => head + lines());
  }
}

/** Counts values by a key. Returns the samples of a gauge with one label. */
export function countBy<T>(label: string, values: Iterable<T>, keyOf: (value: T) => string): Sample[] {
  return [...Map.groupBy(values, keyOf)].map(([key, of]) => [{ [label]: key }, of.length] as const);
}

/**
 * Returns a number for a revision, as the value of a gauge. Equal revisions have equal numbers. All revisions share
 * one series. As a label, each revision would be a new series, and each change of a tenant's names makes a revision.
 */
export function hashValue(revision: string): number {
  return Number.parseInt(hash("sha256", revision, "hex").slice(0, HASH_DIGITS), 16);
}

function sampleLines(name: string, collected: number | Iterable<Sample>): string {
  const samples: Iterable<Sample> = typeof collected === "number" ? [[{}, collected]] : collected;
  return Array.from(samples, ([labels, value]) => `${name}${labelText(labels)} ${value}\n`).join("");
}

/** Returns the lines of one series of a histogram. In the text format, buckets are cumulative. */
function bucketLines(name: string, { labels, counts, sum }: HistogramCounts, bounds: readonly number[]): string {
  let count = 0;
  const buckets = counts.map((inBucket, index): Sample => {
    count += inBucket;
    return [{ ...labels, le: bounds[index] ?? "+Inf" }, count];
  });
  const [sums, totals] = [sampleLines(`${name}_sum`, [[labels, sum]]), sampleLines(`${name}_count`, [[labels, count]])];
  return sampleLines(`${name}_bucket`, buckets) + sums + totals;
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
