import { LeftOut } from "#extras/left-out.ts";
import { createSelector, type SelectedHosts } from "#hostmap/pod-selection.ts";
import type { NameProtection } from "#hostmap/protected-names.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { NODE_HOSTS_PATH, nodeHostsSettings } from "./config.ts";
import { type FileChange, onText } from "./file-bytes.ts";
import type { HostsFileUpdate } from "./hosts-file.ts";
import { checkLines, hostsFileLimits } from "./hosts-file-limits.ts";
import { applyLive, removeLive } from "./live-hosts.ts";
import { liveAliases, planLive } from "./live-hosts-plan.ts";
import type { NodeHostsFile } from "./node-hosts-file.ts";
import { MAX_TAKEN, type NodeHostsReport } from "./node-hosts-report.ts";

/** Path of the node's hosts file in the agent's pod. Undefined if the chart does not mount it. */
export function nodeHostsPath(config: object, path = NODE_HOSTS_PATH): string | undefined {
  const { names, remove } = nodeHostsSettings(config);
  return names.length > 0 || remove ? path : undefined;
}

interface NodeHostsDeps {
  readonly file: NodeHostsFile;
  /** Names and patterns that are chosen for the node. */
  readonly names: readonly string[];
  readonly maxNames: number;
  /** Rejects names whatever the map has: with a stolen token of the controller, anybody can publish any map. */
  readonly protect: NameProtection;
  readonly log: Logger;
}

/** A node's hosts file has no lines from a pod's spec. */
const NO_ALIASES = liveAliases([]);

const REPLACED: Reason = {
  code: "node-hosts-replaced",
  text: "the node's hosts file was replaced; the agent sees the new one after a restart of its container",
};

/**
 * Keeps a block of chosen names in the node's hosts file, and changes nothing else in it. The block leaves out names
 * that a foreign line has.
 */
export class NodeHosts {
  readonly #deps: NodeHostsDeps;
  #selected: SelectedHosts | undefined;
  /** Revision of the block in the file; "" if there is none. Undefined if not known. */
  #written: string | undefined;
  #stamp: string | undefined;
  #taken: readonly string[] = [];
  #refused: readonly string[] = [];
  #leftOut = new LeftOut();
  #problem: Reason | undefined;

  constructor(deps: NodeHostsDeps) {
    this.#deps = deps;
  }

  /** `map` is undefined if the map is not followed. The file then stays as it is. */
  setMap(map: PublishedMap | undefined): void {
    const { names, maxNames, protect } = this.#deps;
    this.#selected = map === undefined ? undefined : createSelector(map, maxNames)(names.join(","));
    this.#leftOut = new LeftOut();
    this.#refused = (this.#selected?.names ?? []).filter((name) => {
      const reason = protect(name);
      if (reason !== undefined) this.#leftOut.add(reason);
      return reason !== undefined;
    });
  }

  /** Names that the node's file should have. Undefined if not known. */
  get selected(): SelectedHosts | undefined {
    return this.#selected;
  }

  /** Whether the file is known to have no block. */
  get isClean(): boolean {
    return this.#written === "" && this.#problem === undefined;
  }

  /** Whether the mounted file is no longer the node's file. */
  get isReplaced(): boolean {
    return this.#problem === REPLACED;
  }

  /**
   * Updates the file. `wanted`: whether the file should have a block. Does not read the file if nothing has changed.
   */
  reconcile(wanted: boolean): void {
    const selected = wanted ? this.#selected : undefined;
    if (wanted && selected === undefined) return;
    const { file } = this.#deps;
    if (file.isReplaced()) {
      this.#took({ kind: "refused", reason: REPLACED }, undefined);
      return;
    }
    const revision = selected?.revision ?? "";
    const isCurrent = this.#written === revision && this.#problem === undefined;
    if (isCurrent && this.#stamp !== undefined && file.stamp() === this.#stamp) return;
    let taken: readonly string[] = [];
    const change = selected === undefined ? this.#removal() : this.#block(selected, (names) => (taken = names));
    this.#took(file.update(change), revision);
    this.#setTaken(taken);
  }

  get report(): NodeHostsReport {
    const names = this.#selected?.names.length ?? 0;
    const leftOut = new Set([...this.#taken, ...this.#refused]);
    return {
      revision: this.#written === "" ? undefined : this.#written,
      names: this.#written === undefined || this.#written === "" ? 0 : names - leftOut.size,
      taken: this.#taken,
      problem: this.#problem ?? this.#overCap ?? this.#leftOut.reason,
    };
  }

  #block(selected: SelectedHosts, onTaken: (names: readonly string[]) => void): FileChange {
    const limits = hostsFileLimits(this.#deps.maxNames);
    return onText((text) => {
      checkLines(text, limits);
      const applied = applyLive(text, NO_ALIASES, selected, (aliases, names, taken) => {
        onTaken(taken);
        return planLive(aliases, names, [...taken, ...this.#refused]);
      });
      checkLines(applied, limits);
      return applied;
    });
  }

  #removal(): FileChange {
    const limits = hostsFileLimits(this.#deps.maxNames);
    return onText((text) => {
      checkLines(text, limits);
      return removeLive(text, NO_ALIASES);
    });
  }

  #took(outcome: HostsFileUpdate, revision: string | undefined): void {
    const { log } = this.#deps;
    const problem = problemOf(outcome, revision);
    if (problem === undefined) this.#written = revision;
    this.#stamp = "stamp" in outcome ? outcome.stamp : undefined;
    if (problem?.code !== this.#problem?.code) {
      if (problem !== undefined) log.warn({ ...problem }, "hosts file of the node: not written");
      else log.info({}, "hosts file of the node: current again");
    }
    this.#problem = problem;
  }

  #setTaken(taken: readonly string[]): void {
    if (taken.length > 0 && taken.join() !== this.#taken.join()) {
      const names = taken.slice(0, MAX_TAKEN).join(", ");
      const text = `${taken.length} names have a line of somebody else, which stays: ${names}`;
      this.#deps.log.warn({ code: "node-hosts-taken", text }, "hosts file of the node: names left out");
    }
    this.#taken = taken;
  }

  get #overCap(): Reason | undefined {
    const { total = 0, cap = 0 } = this.#selected ?? {};
    if (total <= cap) return undefined;
    return { code: "many-names", text: `only the first ${cap} of ${total} chosen names fit; choose fewer` };
  }
}

/** Returns the problem of an outcome. A missing file is a problem only if it should have a block. */
function problemOf(outcome: HostsFileUpdate, revision: string | undefined): Reason | undefined {
  if (outcome.kind === "refused") return outcome.reason;
  if (outcome.kind !== "absent" || revision === "") return undefined;
  return { code: "node-hosts-absent", text: "the node's hosts file is not there" };
}
