import { statusOf } from "../../errors/errors.ts";
import { shortHash } from "../../hostmap/hash.ts";
import type { Reason } from "../../hostmap/types.ts";
import type { KubeClient } from "../../kube/client.ts";
import { corePath } from "../../kube/paths.ts";
import type { ObjectMeta } from "../../kube/types.ts";
import { DAY_MS, decodeRecord, encodeRecord, type History } from "./restart-history.ts";

export const RECORDS_NAME = "switchback-restarts";
const FIELD_MANAGER = "switchback-controller";
/** A ConfigMap's key: at most 253 of these. */
const KEY = /^[-._a-zA-Z0-9]{1,253}$/;

interface RecordMap {
  readonly metadata: ObjectMeta;
  readonly data?: Readonly<Record<string, string>> | null;
}

/**
 * The records of restarts, in a ConfigMap of our own: they survive an owner that reverts our annotations. A record is written before
 * its restart, as a compare-and-swap, so that of two overlapping leaders one is refused.
 */
export class RestartRecords {
  readonly #client: KubeClient;
  readonly #path: string;
  readonly #namespace: string;
  #version = "";
  #data = new Map<string, string>();

  private constructor(client: KubeClient, namespace: string) {
    this.#client = client;
    this.#namespace = namespace;
    this.#path = corePath("configmaps", namespace, RECORDS_NAME);
  }

  /** Reads the records of earlier leaders; creates the ConfigMap if there is none. */
  static async open(client: KubeClient, namespace: string, signal: AbortSignal): Promise<RestartRecords> {
    const records = new RestartRecords(client, namespace);
    await records.#read(signal);
    return records;
  }

  of(workload: string): History | Reason {
    const text = this.#data.get(keyOf(workload));
    if (text === undefined) return [];
    const record = decodeRecord(text);
    if ("code" in record) return record;
    return record.restarts;
  }

  /** Every readable record: the workload and its restarts. */
  *all(): Iterable<{ readonly workload: string; readonly restarts: History }> {
    for (const text of this.#data.values()) {
      const record = decodeRecord(text);
      if (!("code" in record)) yield record;
    }
  }

  /** Throws if the write is not confirmed; the records are then read again. */
  async put(workload: string, restarts: History, now: number, signal: AbortSignal): Promise<void> {
    const data: Record<string, string | null> = this.#outdated(now);
    data[keyOf(workload)] = restarts.length === 0 ? null : encodeRecord(workload, restarts);
    const body = { metadata: { resourceVersion: this.#version }, data };
    try {
      this.#update(await this.#client.mergePatch<RecordMap>(this.#path, body, { fieldManager: FIELD_MANAGER, signal }));
    } catch (error) {
      if (!signal.aborted) await this.#read(signal);
      throw error;
    }
  }

  async #read(signal: AbortSignal): Promise<void> {
    try {
      this.#update(await this.#client.get<RecordMap>(this.#path, {}, { signal }));
    } catch (error) {
      if (statusOf(error) !== 404) throw error;
      const metadata = { name: RECORDS_NAME, namespace: this.#namespace };
      const object = { apiVersion: "v1", kind: "ConfigMap", metadata };
      this.#update(await this.#client.apply<RecordMap>(this.#path, object, { fieldManager: FIELD_MANAGER, signal }));
    }
  }

  #update({ metadata, data }: RecordMap): void {
    this.#version = metadata.resourceVersion ?? "";
    this.#data = new Map(Object.entries(data ?? {}));
  }

  /** Records whose last restart is more than a week old. */
  #outdated(now: number): Record<string, null> {
    const old = [...this.#data].filter(([, text]) => {
      const record = decodeRecord(text);
      return !("code" in record) && (record.restarts.at(-1)?.at ?? 0) < now - 7 * DAY_MS;
    });
    return Object.fromEntries(old.map(([key]) => [key, null]));
  }
}

/** `shop.Deployment.web`. */
function keyOf(workload: string): string {
  const key = workload.replaceAll("/", ".");
  return KEY.test(key) ? key : shortHash(workload);
}
