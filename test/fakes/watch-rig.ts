import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { KubeStatusError } from "#lib/kube/status.ts";
import type { StreamEnd, StreamOptions } from "#lib/kube/stream.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { WatchOptions } from "#lib/kube/watch.ts";
import { stopTime } from "./stopped-time.ts";
import { watching } from "./watching.ts";

export interface Stream {
  readonly query: Readonly<Record<string, unknown>>;
  readonly options: StreamOptions;
  readonly end: (end: StreamEnd) => void;
  readonly fail: (error: Error) => void;
  /** Sends a line. An error of its handler ends the stream, as in stream.ts. */
  readonly raw: (line: string) => void;
  readonly line: (type: string, name: string | undefined, version?: string) => void;
}

interface List {
  /** Milliseconds since the start. */
  readonly at: number;
  readonly path: string;
  readonly query: Readonly<Record<string, unknown>>;
  readonly options: Readonly<Record<string, unknown>>;
}

/** A refusal by the API server. */
export const status = (code: number, retryAfterMs?: number) =>
  new KubeStatusError("GET", code, { message: "refused", ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
/** The API server does not answer. */
export const away = new SwitchbackError("kube-unreachable", "no answer");
export const object = (name: string, resourceVersion = "1", uid = `u-${name}`): ApiObject => ({
  metadata: { namespace: "shop", name, uid, resourceVersion },
});

/** A watch with its real timings. The test controls its lists and streams, and time passes only in `pass`. */
export function startWatch(t: TestContext, options: Partial<WatchOptions<string>> = {}) {
  const pass = stopTime(t, 250);
  const begun = performance.now();
  const at = () => performance.now() - begun;
  const rig = {
    items: [object("a")],
    version: "5",
    refusesLists: undefined as Error | undefined,
    refusesWatches: undefined as Error | undefined,
    /** The answer to a list, if it is not `items`. */
    page: undefined as ((list: List) => unknown) | undefined,
  };
  const lists: List[] = [];
  const streams: Stream[] = [];
  /** `L` is a list, `W5` a watch from version 5. */
  const order: string[] = [];
  const attempts: number[] = [];
  const client = {
    get: async <T>(path: string, query = {}, read = {}) => {
      const list = { at: at(), path, query, options: { ...read } };
      lists.push(list);
      order.push("L");
      attempts.push(at());
      if (rig.refusesLists !== undefined) throw rig.refusesLists;
      return ((await rig.page?.(list)) ?? { metadata: { resourceVersion: rig.version }, items: rig.items }) as T;
    },
    stream: async (_path: string, query: Record<string, unknown>, stream: StreamOptions) => {
      order.push(`W${query.resourceVersion}`);
      if (rig.refusesWatches !== undefined) throw rig.refusesWatches;
      const { promise, resolve, reject } = Promise.withResolvers<StreamEnd>();
      stream.signal.addEventListener("abort", () => reject(stream.signal.reason));
      const raw = (line: string) => {
        try {
          stream.onLine(line);
        } catch (error) {
          reject(error);
        }
      };
      const line: Stream["line"] = (type, name, version) =>
        raw(
          JSON.stringify({
            type,
            object: { metadata: { ...(name && object(name).metadata), resourceVersion: version } },
          }),
        );
      streams.push({ query: { ...query }, options: stream, end: resolve, fail: reject, raw, line });
      stream.onOpen?.();
      return await promise;
    },
  };
  const timings = { backoffMs: 250, backoffCapMs: 5_000, shortMs: 1_000 };
  const seen = watching(client, { timings, ...options });
  t.after(() => seen.watcher.stop());
  const stream = (): Stream => streams.at(-1) ?? assert.fail("no stream");
  /** Returns the times between the attempts within a period. */
  const delays = async (ms: number, stepMs = 125) => {
    await pass(ms, stepMs);
    return attempts.slice(1).map((time, index) => time - (attempts[index] ?? 0));
  };
  return { rig, pass, lists, streams, stream, order, seen, delays, state: () => seen.watcher.state };
}

/** A watch that has been followed for a second. */
export async function followedWatch(t: TestContext, options: Partial<WatchOptions<string>> = {}) {
  const running = startWatch(t, options);
  await running.pass(1_000);
  return running;
}
