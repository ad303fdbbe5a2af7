import { hash } from "node:crypto";

/** Metrics in Prometheus' text format. */
export interface MetricsText {
  readonly contentType: string;
  metrics(): string | Promise<string>;
}

/** 48 bits: what a double holds exactly. */
const HASH_DIGITS = 12;

/** Values of a series' labels, by label name. They may hold any text: they are escaped. */
export type Labels = Readonly<Record<string, string | number>>;
/** One series of a metric, as it is at a scrape. */
export type Sample = readonly [labels: Labels, value: number];

/** A metric at one scrape. */
interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** A histogram's samples have a suffix to the metric's name: `_bucket`, `_sum` or `_count`. */
  readonly samples: ReadonlyArray<{ readonly suffix: string; readonly labels: Labels; readonly value: number }>;
}

/** How a metric's series are read at a scrape; a number: the one series without labels. */
type Collect = () => number | Iterable<Sample>;

/** A counter of events. */
export interface Counter {
  /** `by` is not negative. */
  inc(by?: number): void;
}

/** A counter with a series for each set of labels, from its first event. */
interface LabelledCounter {
  inc(labels: Labels): void;
  /** The counter of one series, which is there from then on. For a series that counts often: no look-up by labels. */
  with(labels: Labels): Counter;
}

/** Counts observations by size. */
interface Histogram {
  observe(value: number): void;
}

/** The counts of one series of a histogram. */
interface HistogramCounts {
  readonly labels: Labels;
  /** Observations in each bucket, not cumulated; one more than there are bounds, for what exceeds them all. */
  readonly counts: readonly number[];
  readonly sum: number;
}

/**
 * A component's metrics in Prometheus' text format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Most values exist already when a scrape asks for
 * them, so a metric is a function that reads them; a client library takes 7 MB of each process' memory to keep a
 * second copy (docs/decisions).
 */
export class MetricsRegistry implements MetricsText {
  readonly contentType = "text/plain; version=0.0.4; charset=utf-8";
  readonly #families = new Map<string, () => MetricFamily>();

  /** Adds a gauge that is read at each scrape. Throws if the name is taken. */
  gauge(name: string, help: string, collect: Collect): void {
    this.#add({ name, help, type: "gauge" }, () => plain(collect()));
  }

  /** Adds a counter whose count is kept elsewhere, and read at each scrape. */
  counterOf(name: string, help: string, collect: Collect): void {
    this.#add({ name, help, type: "counter" }, () => plain(collect()));
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

  /** Adds a counter with labels. Their values must be bounded: each set of them stays for the life of the process. */
  labelledCounter(name: string, help: string): LabelledCounter {
    const series = new Map<string, [Labels, number]>();
    this.counterOf(name, help, () => series.values());
    const counterWith = (labels: Labels): Counter => {
      const key = labelText(labels);
      const one = series.get(key) ?? [labels, 0];
      series.set(key, one);
      return {
        inc(by = 1) {
          one[1] += by;
        },
      };
    };
    return { with: counterWith, inc: (labels) => counterWith(labels).inc() };
  }

  /** Adds a histogram without labels. `bounds`: the upper bounds of its buckets, ascending and inclusive. */
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

  /** Adds a histogram whose counts are kept elsewhere, and read at each scrape. */
  histogramOf(name: string, help: string, bounds: readonly number[], collect: () => Iterable<HistogramCounts>): void {
    this.#add({ name, help, type: "histogram" }, () => [...collect()].flatMap((series) => bucketsOf(series, bounds)));
  }

  /** Every metric as it is now. */
  families(): MetricFamily[] {
    return [...this.#families.values()].map((read) => read());
  }

  metrics(): string {
    return this.families().map(textOf).join("");
  }

  #add(head: Omit<MetricFamily, "samples">, samples: () => MetricFamily["samples"]): void {
    if (this.#families.has(head.name)) throw new RangeError(`the metric ${head.name} exists already`);
    this.#families.set(head.name, () => ({ ...head, samples: samples() }));
  }
}

/** How many values there are of each kind: a gauge's samples with one label. */
export function countBy<T>(label: string, values: Iterable<T>, keyOf: (value: T) => string): Sample[] {
  return [...Map.groupBy(values, keyOf)].map(([key, of]) => [{ [label]: key }, of.length] as const);
}

/**
 * A revision as the value of a gauge: one series for all revisions, with equal values for equal ones. As a label each
 * revision would be a series, and each change of a tenant's names makes a revision.
 */
export function hashValue(revision: string): number {
  return Number.parseInt(hash("sha256", revision, "hex").slice(0, HASH_DIGITS), 16);
}

function plain(collected: number | Iterable<Sample>): MetricFamily["samples"] {
  const samples: Iterable<Sample> = typeof collected === "number" ? [[{}, collected]] : collected;
  return Array.from(samples, ([labels, value]) => ({ suffix: "", labels, value }));
}

/** Buckets are cumulative in the text. */
function bucketsOf({ labels, counts, sum }: HistogramCounts, bounds: readonly number[]): MetricFamily["samples"] {
  let count = 0;
  const buckets = counts.map((inBucket, index) => {
    count += inBucket;
    return { suffix: "_bucket", labels: { ...labels, le: bounds[index] ?? "+Inf" }, value: count };
  });
  return [...buckets, { suffix: "_sum", labels, value: sum }, { suffix: "_count", labels, value: count }];
}

function textOf({ name, help, type, samples }: MetricFamily): string {
  const lines = samples.map(({ suffix, labels, value }) => `${name}${suffix}${labelText(labels)} ${value}\n`);
  return (
    `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}\n# TYPE ${name} ${type}\n` +
    `${lines.join("")}`
  );
}

function labelText(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function escaped(value: string): string {
  if (!/[\\"\n]/.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
