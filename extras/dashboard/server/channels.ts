import { known, notKnown } from "#doctor/fact.ts";
import { describeError } from "#lib/errors/errors.ts";
import { StatusChanges } from "./changes.ts";
import type { FeedMessage, TrafficPoint } from "./messages.ts";
import type { DashboardSource } from "./source.ts";
import { measuredState, Traffic } from "./traffic.ts";

/** A source that is read at intervals. */
export interface Channel {
  /** Time between two reads, milliseconds. */
  readonly everyMs: number;
  /** What is already known, for a new listener. */
  whole(): readonly FeedMessage[];
  /** Reads once. Never rejects: a failure becomes a message. */
  read(signal: AbortSignal): Promise<readonly FeedMessage[]>;
}

const COMPONENTS_MS = 10_000;
/** Time between two runs of the doctor. In a cluster with 150,000 pods, a run takes some seconds. */
const DOCTOR_MS = 120_000;
/** Maximum number of points: ten minutes, with one every 5 seconds. */
const MAX_POINTS = 120;

/** Names and workloads. `now`: milliseconds since 1970. */
export function statusChannel(source: DashboardSource, everyMs: number, now: () => number): Channel {
  const changes = new StatusChanges();
  let trouble: FeedMessage | undefined;
  return {
    everyMs,
    whole: () => [...changes.whole(), ...(trouble === undefined ? [] : [trouble])],
    async read(signal) {
      try {
        const status = await source.status(signal);
        trouble = undefined;
        return changes.take(status, now());
      } catch (error) {
        trouble = { type: "unknown", at: now(), text: describeError(error) };
        return [trouble];
      }
    },
  };
}

/** Deployments, agents, upstreams and publishers. Each part may be unknown separately. */
export function componentsChannel(components: NonNullable<DashboardSource["components"]>): Channel {
  let last: readonly FeedMessage[] = [];
  return {
    everyMs: COMPONENTS_MS,
    whole: () => last,
    async read() {
      const unknown = (error: unknown) => notKnown("not-read", describeError(error));
      const read = await components().catch((error: unknown) => {
        const fact = unknown(error);
        return { deployments: fact, agents: fact, upstreams: fact, publishers: fact };
      });
      last = [{ type: "components", components: read }];
      return last;
    },
  };
}

/** Rates and latencies of the last minutes. */
export function trafficChannel(
  metrics: NonNullable<DashboardSource["metrics"]>,
  everyMs: number,
  now: () => number,
): Channel {
  const traffic = new Traffic();
  const points: TrafficPoint[] = [];
  let measured: Extract<FeedMessage, { type: "traffic" }>["measured"] | undefined;
  return {
    everyMs,
    whole: () => (measured === undefined ? [] : [{ type: "traffic", points, measured }]),
    async read() {
      const read = await metrics().catch((error: unknown) => notKnown("not-read", describeError(error)));
      const point = read.known ? traffic.take(now(), read.value) : undefined;
      measured = read.known ? { known: true, value: measuredState(read.value) } : read;
      if (point !== undefined && points.push(point) > MAX_POINTS) points.shift();
      return [{ type: "traffic", points: point === undefined ? [] : [point], measured }];
    },
  };
}

/** The doctor's findings. A read during a run gets the findings of that run. `now`: milliseconds since 1970. */
export function doctorChannel(doctor: NonNullable<DashboardSource["doctor"]>, now: () => number): Channel {
  let last: readonly FeedMessage[] = [];
  let running: Promise<readonly FeedMessage[]> | undefined;
  const examine = async () => {
    const report = await doctor().then(known, (error: unknown) => notKnown("not-read", describeError(error)));
    last = [{ type: "examined", at: now(), report }];
    return last;
  };
  return {
    everyMs: DOCTOR_MS,
    whole: () => last,
    read() {
      running ??= examine().finally(() => {
        running = undefined;
      });
      return running;
    },
  };
}
