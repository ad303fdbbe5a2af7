import type { MeasuredState, TrafficPoint } from "./messages.ts";
import type { Series } from "./metrics-text.ts";

/** The metrics of one replica. */
export interface PodMetrics {
  /** `pod:port`. */
  readonly pod: string;
  readonly series: readonly Series[];
}

const ACCEPTED = "switchback_proxy_connections_total";
const OPEN = "switchback_proxy_connections_active";
const ERRORS = ["switchback_proxy_refused_total", "switchback_proxy_cut_total", "switchback_proxy_dial_errors_total"];
const CONNECT = "switchback_proxy_connect_seconds_bucket";
const ADMITTED = "switchback_webhook_admissions_total";
const UPSTREAM = "switchback_proxy_upstream_ok";
const CERTIFICATE = "switchback_certificate_expiry_timestamp_seconds";
const ROTATION = "switchback_certificates_state";
const ROTATION_FAILS = "switchback_certificates_failing";
const STATES = [UPSTREAM, CERTIFICATE, ROTATION, ROTATION_FAILS];
const WANTED = new Set([ACCEPTED, OPEN, ...ERRORS, CONNECT, ADMITTED, ...STATES]);

/** Whether the dashboard uses a metric. */
export function isShown(name: string): boolean {
  return WANTED.has(name);
}

/** Values of a replica's counters, by series. */
type Counters = ReadonlyMap<string, number>;

/** Turns the counters of all replicas into rates, from one scrape to the next. */
export class Traffic {
  #before: { readonly at: number; readonly pods: ReadonlyMap<string, Counters> } | undefined;

  /**
   * `at`: milliseconds since 1970. @returns undefined for the first scrape, which has nothing to compare with, and if
   * no time has passed.
   */
  take(at: number, pods: readonly PodMetrics[]): TrafficPoint | undefined {
    const now = new Map(pods.map(({ pod, series }) => [pod, countersOf(series)]));
    const before = this.#before;
    this.#before = { at, pods: now };
    if (before === undefined || at <= before.at) return undefined;
    const grown = growth(pods, before.pods);
    const seconds = (at - before.at) / 1_000;
    const rate = (...names: string[]): number | undefined => {
      const of = grown.filter(({ name }) => names.includes(name));
      return of.length === 0 ? undefined : of.reduce((sum, { value }) => sum + value, 0) / seconds;
    };
    const open = pods.flatMap(({ series }) => series.filter(({ name }) => name === OPEN));
    return {
      at,
      open: open.length === 0 ? undefined : open.reduce((sum, { value }) => sum + value, 0),
      accepted: rate(ACCEPTED),
      errors: rate(ACCEPTED) === undefined ? undefined : errorRates(grown, seconds),
      connectMs: quantilesMs(grown.filter(({ name }) => name === CONNECT)),
      admitted: rate(ADMITTED),
    };
  }
}

const keyOf = ({ name, labels }: Series) => `${name} ${JSON.stringify(labels)}`;

function countersOf(series: readonly Series[]): Counters {
  return new Map(series.map((each) => [keyOf(each), each.value]));
}

/**
 * By how much each counter has grown. A counter that is lower than before has restarted from 0. A replica that was
 * not there before gives nothing yet.
 */
function growth(pods: readonly PodMetrics[], before: ReadonlyMap<string, Counters>): Series[] {
  return pods.flatMap(({ pod, series }) => {
    const earlier = before.get(pod);
    if (earlier === undefined) return [];
    return series.map((each) => {
      // A series only appears with its first event, so a missing one was 0.
      const last = earlier.get(keyOf(each)) ?? 0;
      return { ...each, value: each.value < last ? each.value : each.value - last };
    });
  });
}

function errorRates(grown: readonly Series[], seconds: number): Record<string, number> {
  const rates = new Map<string, number>();
  for (const { name, labels, value } of grown) {
    if (!ERRORS.includes(name) || value === 0) continue;
    const cause = labels.cause ?? "unknown";
    rates.set(cause, (rates.get(cause) ?? 0) + value / seconds);
  }
  return Object.fromEntries(rates);
}

/** Upper bounds of the buckets that hold the median and the 99th percentile; undefined if nothing was observed. */
function quantilesMs(buckets: readonly Series[]): readonly [number, number] | undefined {
  const counts = new Map<number, number>();
  for (const { labels, value } of buckets) {
    const bound = labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(labels.le);
    counts.set(bound, (counts.get(bound) ?? 0) + value);
  }
  const sorted = [...counts].sort(([one], [other]) => one - other);
  const total = sorted.at(-1)?.[1] ?? 0;
  if (total === 0) return undefined;
  const finite = sorted.filter(([bound]) => Number.isFinite(bound));
  const highest = finite.at(-1)?.[0] ?? 0;
  const quantile = (share: number) => (finite.find(([, count]) => count >= share * total)?.[0] ?? highest) * 1_000;
  return [quantile(0.5), quantile(0.99)];
}

/** The state that the gauges of all replicas report now. */
export function measuredState(pods: readonly PodMetrics[]): MeasuredState {
  const all = pods.flatMap(({ series }) => series);
  const certificates = all.filter(({ name }) => name === CERTIFICATE);
  const holds = (wanted: string) => all.find(({ name, value }) => name === wanted && value === 1);
  const dials = Map.groupBy(
    all.filter(({ name }) => name === UPSTREAM),
    ({ labels }) => JSON.stringify([labels.target ?? "", labels.port ?? ""]),
  );
  return {
    certificates: Object.fromEntries(certificates.map(({ labels, value }) => [labels.certificate ?? "unknown", value])),
    rotation: holds(ROTATION)?.labels.code,
    rotationFails: holds(ROTATION_FAILS) !== undefined,
    upstreams: [...dials].map(([key, states]) => {
      const [target, port] = JSON.parse(key) as [string, string];
      const good = states.filter(({ value }) => value === 1).length;
      return { target, port, good, failing: states.length - good };
    }),
  };
}
