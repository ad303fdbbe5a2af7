import { hash } from "node:crypto";

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

/** A metric at one scrape. */
interface MetricFamily {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** The samples of a histogram add a suffix to the metric's name: `_bucket`, `_sum` or `_count`. */
  readonly samples: ReadonlyArray<{ readonly suffix: string; readonly labels: Labels; readonly value: number }>;
}

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
  /**
   * Returns the counter of one series, and creates the series. Use it for frequent events: it saves the look-up by
   * labels.
   */
  with(labels: Labels): Counter;
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
  readonly #families = new Map<string, () => MetricFamily>();

  /** Adds a gauge whose value is read at each scrape. Throws if the name is taken. */
  gauge(name: string, help: string, collect: Collect): void {
    this.#add({ name, help, type: "gauge" }, () => plain(collect()));
  }

  /** Adds a counter whose count is kept elsewhere and read at each scrape. */
  counterOf(name: string, help: string, collect: Collect): void {
    this.#add({ name, help, type: "counter" }, () => plain(collect()));
  }

  /** Adds a counter without labels. */
  counter(name: string, help: string): Counter {
    return this.labelledCounter(name, help).with({});
  }

  /** Adds a counter with labels. Label values must be bounded: each set of labels exists until the process ends. */
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
    this.#add({ name, help, type: "histogram" }, () => [...collect()].flatMap((series) => bucketsOf(series, bounds)));
  }

  /** Reads every metric now. */
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

function plain(collected: number | Iterable<Sample>): MetricFamily["samples"] {
  const samples: Iterable<Sample> = typeof collected === "number" ? [[{}, collected]] : collected;
  return Array.from(samples, ([labels, value]) => ({ suffix: "", labels, value }));
}

/** Returns the bucket samples. In the text format, buckets are cumulative. */
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
