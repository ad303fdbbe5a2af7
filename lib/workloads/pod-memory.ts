import { getHeapStatistics } from "node:v8";
import type { Reason } from "#hostmap/types.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { OwnerRef } from "./owners.ts";
import type { PodFacts } from "./pods.ts";

/** Bytes per pod apart from its texts: its facts, and its entries in the maps of the watches and of the rollout. */
const POD_BYTES = 400;
/** Share of the heap that pods may take. The map, the sources and the API server's answers need the rest. */
const HEAP_SHARE = 0.4;
/** Share of the limit that the selections (`switchback.dev/hosts`) of one namespace may take. */
const NAMESPACE_SHARE = 1 / 8;
/**
 * Maximum number and length of the texts in a table. Texts that pods of one workload or node share are short, and
 * such pods arrive together.
 */
const MAX_INTERNED = 16_384;
const MAX_INTERNED_LENGTH = 128;
/**
 * Maximum number of left-out pods that are counted, and how long each is counted. Everything is listed again at least
 * once an hour.
 */
const MAX_COUNTED = 10_000;
const COUNTED_MS = 65 * 60_000;

interface Selection {
  readonly text: string;
  /** The namespace whose pod brought the selection first. The selection is charged to it. */
  readonly namespace: string;
  pods: number;
}

/**
 * Limits the memory for pods, whatever their owners write into them. Equal texts are kept once. A pod that does not
 * fit is left out, with a reason. Earlier pods stay.
 */
export class PodMemory {
  readonly #limit: number;
  readonly #log: Logger;
  /** The kept facts of each pod, by uid. They determine its charge. */
  readonly #pods = new Map<string, PodFacts>();
  readonly #selections = new Map<string, Selection>();
  readonly #selectionBytes = new Map<string, number>();
  readonly #texts = new Map<string, string>();
  readonly #owners = new Map<string, OwnerRef>();
  /** The time when each pod was left out, by uid, oldest first. */
  readonly #shed = new Map<string, number>();
  readonly #now: () => number;
  #bytes = 0;

  /** `limit` is in bytes. `now` is a monotonic clock in milliseconds. */
  constructor(deps: { readonly log: Logger; readonly limit?: number; readonly now?: () => number }) {
    this.#log = deps.log;
    this.#limit = deps.limit ?? Math.floor(getHeapStatistics().heap_size_limit * HEAP_SHARE);
    this.#now = deps.now ?? steadyNow;
  }

  /** Bytes charged for all pods. Never less than their actual size. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Number of pods that are left out. It counts at most 10,000. */
  get shedPods(): number {
    for (const [uid, at] of this.#shed) {
      if (at > this.#now() - COUNTED_MS) break;
      this.#shed.delete(uid);
    }
    return this.#shed.size;
  }

  /** The reason why pods are left out. Undefined if no pod is left out. */
  get shed(): Reason | undefined {
    const { shedPods } = this;
    if (shedPods === 0) return undefined;
    const count = shedPods < MAX_COUNTED ? String(shedPods) : `more than ${shedPods}`;
    const text =
      `${count} pods are not observed, because facts about pods may take only ${this.#limit} bytes: a larger heap ` +
      "of the controller raises that";
    return { code: "pods-shed", text };
  }

  /**
   * Returns the facts to keep, which replace these facts and earlier ones of the same pod. Undefined: there is no
   * room.
   */
  keep(facts: PodFacts): PodFacts | undefined {
    this.release(facts);
    const { namespace, uid, hosts } = facts;
    const bytes = bytesOf(facts);
    const selection = hosts === undefined ? undefined : this.#selections.get(hosts);
    const more = hosts === undefined || selection !== undefined ? 0 : textBytes(hosts);
    const ofNamespace = (this.#selectionBytes.get(namespace) ?? 0) + more;
    if (this.#bytes + bytes + more > this.#limit || ofNamespace > this.#limit * NAMESPACE_SHARE) {
      this.#leaveOut(uid);
      return undefined;
    }
    this.#shed.delete(uid);
    const kept = this.#interned(facts);
    this.#bytes += bytes + more;
    this.#pods.set(uid, kept);
    if (kept.hosts !== undefined) {
      if (selection === undefined) this.#selections.set(kept.hosts, { text: kept.hosts, namespace, pods: 1 });
      else selection.pods += 1;
      if (more > 0) this.#selectionBytes.set(namespace, ofNamespace);
    }
    return kept;
  }

  /** Removes the charge of a pod that is gone. */
  release({ uid }: PodFacts): void {
    const kept = this.#pods.get(uid);
    if (kept === undefined) return;
    this.#pods.delete(uid);
    this.#bytes -= bytesOf(kept);
    const selection = kept.hosts === undefined ? undefined : this.#selections.get(kept.hosts);
    if (kept.hosts === undefined || selection === undefined) return;
    selection.pods -= 1;
    if (selection.pods > 0) return;
    this.#selections.delete(kept.hosts);
    this.#bytes -= textBytes(kept.hosts);
    const left = (this.#selectionBytes.get(selection.namespace) ?? 0) - textBytes(kept.hosts);
    if (left > 0) this.#selectionBytes.set(selection.namespace, left);
    else this.#selectionBytes.delete(selection.namespace);
  }

  #leaveOut(uid: string): void {
    const isFirst = this.#shed.size === 0;
    this.#shed.delete(uid);
    if (this.#shed.size < MAX_COUNTED) this.#shed.set(uid, this.#now());
    if (isFirst) this.#log.warn({ code: "pods-shed", limit: this.#limit }, this.shed?.text ?? "");
  }

  /**
   * Returns the facts with texts that other pods share, so that each text is in memory once. Names and uids are not
   * shared.
   */
  #interned(facts: PodFacts): PodFacts {
    const { owner, hosts } = facts;
    return {
      ...facts,
      namespace: this.#text(facts.namespace) ?? "",
      node: this.#text(facts.node),
      owner: owner && this.#owner(owner),
      templateHash: this.#text(facts.templateHash),
      inject: this.#text(facts.inject),
      hosts: hosts === undefined ? undefined : (this.#selections.get(hosts)?.text ?? hosts),
      revision: this.#text(facts.revision),
      onChange: this.#text(facts.onChange),
      restartedAt: this.#text(facts.restartedAt),
    };
  }

  #text(text: string | undefined): string | undefined {
    return text === undefined || text.length > MAX_INTERNED_LENGTH ? text : oneOf(this.#texts, text, () => text);
  }

  #owner(owner: OwnerRef): OwnerRef {
    const { apiVersion, kind, name } = owner;
    const key = JSON.stringify([apiVersion, kind, name]);
    if (key.length > MAX_INTERNED_LENGTH) return owner;
    return oneOf(this.#owners, key, () => ({
      apiVersion: this.#text(apiVersion) ?? "",
      kind: this.#text(kind) ?? "",
      name,
    }));
  }
}

/** Returns the first of equal values. A full table is emptied. Its values stay where they are in use. */
function oneOf<T>(table: Map<string, T>, key: string, create: () => T): T {
  const known = table.get(key);
  if (known !== undefined) return known;
  if (table.size >= MAX_INTERNED) table.clear();
  const value = create();
  table.set(key, value);
  return value;
}

/** The charge of a pod without its selection, as if no text were shared and each character took two bytes. */
function bytesOf({ namespace, name, uid, node, owner, templateHash, inject, ...facts }: PodFacts): number {
  const { revision, onChange, restartedAt } = facts;
  const texts = [namespace, name, name, uid, node, owner?.apiVersion, owner?.kind, owner?.name, templateHash, inject];
  return [...texts, revision, onChange, restartedAt].reduce((sum, text) => sum + textBytes(text ?? ""), POD_BYTES);
}

function textBytes(text: string): number {
  return 2 * text.length;
}
