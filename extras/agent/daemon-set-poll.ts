import { describeError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_WATCH } from "#lib/kube/accept.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { pause, startPromptTimer } from "#lib/kube/time.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { AGENT_DAEMON_SET } from "./agent-lease-format.ts";
import { LEAVING_KEY, NODE_HOSTS_KEY } from "./metadata-keys.ts";
import { spreadMs } from "./spread.ts";

export interface DaemonSetPoll {
  /**
   * True once the agents' DaemonSet is being deleted or requests an uninstall: every block is then removed from the
   * node.
   */
  readonly uninstalling: boolean;
  /** Whether names are to be in the hosts file of the node, by the DaemonSet; undefined: not known, or run by hand. */
  readonly nodeHosts: boolean | undefined;
  /** The DaemonSet as it was last seen. */
  readonly daemonSet: { readonly name: string; readonly uid: string } | undefined;
  /** How many agents there are to be; 1 while that is not known. */
  readonly agents: number;
  /** How many of them are not ready, this one included. */
  readonly starting: number;
  /** Resolves when the first read has ended, with an answer or without. */
  readonly read: Promise<void>;
  /**
   * Reads the DaemonSet once more, for a process that has to stop: an upgrade keeps it. Without an answer nothing
   * changes. If the right to read it is gone, so is the install: Helm deletes Roles and ServiceAccounts within a
   * second of the DaemonSet.
   */
  askNow(): Promise<boolean>;
  stop(): Promise<void>;
}

interface Seen {
  readonly name: string;
  readonly uid: string;
  readonly leaving: boolean;
  readonly nodeHosts: boolean;
  readonly agents: number;
  readonly starting: number;
}

interface RawDaemonSet extends ApiObject {
  readonly status?: { readonly desiredNumberScheduled?: number; readonly numberReady?: number };
}

/** Reads of all agents together, each second. */
const READS_PER_SECOND = 50;
/**
 * An uninstall is noticed this late, milliseconds: at least where few agents run, and at most. Its hook waits for
 * four minutes.
 */
const MIN_INTERVAL_MS = 10_000;
const MAX_INTERVAL_MS = 100_000;
/** A read comes up to this share of the interval early, so that agents that started together do not read together. */
const JITTER = 0.25;
const TIMEOUT_MS = 2_000;
/**
 * Of so many reads the first brings the status, too, with the number of agents; for the others metadata is enough,
 * half of the bytes.
 */
const READS_WITH_STATUS = 10;
/** An API server that has just started refuses everyone for a moment. */
const REFUSED_TRIES = 5;
const REFUSED_PAUSE_MS = 1_000;

/**
 * Reads the agents' DaemonSet from time to time, and when the process has to stop. A watch would receive a change
 * of status for each agent that becomes ready, on every node: 25 million events at the install of 5,000 agents. A
 * DaemonSet that was never there (an agent run by hand) means nothing; one that is gone means uninstall.
 */
export function pollDaemonSet(deps: {
  readonly client: Pick<KubeClient, "get">;
  readonly namespace: string;
  readonly random: () => number;
  readonly log: Logger;
  readonly onChange: () => void;
}): DaemonSetPoll {
  const { client, namespace, random, log, onChange } = deps;
  const path = workloadPath(namespace, "DaemonSet", AGENT_DAEMON_SET);
  const first = Promise.withResolvers<void>();
  let seen: Seen | undefined;
  let leaving = false;
  let failing = false;
  const set = (next: boolean, before: Seen | undefined): void => {
    if (next !== leaving)
      log.info({}, next ? "uninstall: the blocks are removed from the hosts files" : "uninstall: cancelled");
    const isChange = next !== leaving || (before !== undefined && before.nodeHosts !== seen?.nodeHosts);
    leaving = next;
    if (isChange) onChange();
  };
  let reads = 0;
  const read = async (): Promise<Seen | "gone"> => {
    const accept = reads % READS_WITH_STATUS === 0 ? {} : { accept: METADATA_WATCH };
    try {
      const object = await client.get<RawDaemonSet>(path, {}, { timeoutMs: TIMEOUT_MS, ...accept });
      reads += 1;
      return seenOf(object, seen);
    } catch (error) {
      if (statusOf(error) === 404) return "gone";
      throw error;
    }
  };
  const poller = new Reconciler({
    async reconcile(): Promise<ReconcileResult> {
      const answer = await read();
      failing = false;
      const before = seen;
      if (answer !== "gone") seen = answer;
      if (seen !== undefined) set(answer === "gone" || answer.leaving, before);
      first.resolve();
      return { requeueAfter: intervalMs(seen?.agents ?? 1) * (1 - JITTER * random()) };
    },
    retry: {
      backoff: createBackoff(MIN_INTERVAL_MS, MAX_INTERVAL_MS, random),
      onError(error) {
        if (!failing)
          log.warn({ path, error: describeError(error) }, "DaemonSet: not read, an uninstall is noticed late");
        failing = true;
        first.resolve();
      },
    },
    startTimer: startPromptTimer,
  });
  poller.enqueue();
  return {
    get uninstalling() {
      return leaving;
    },
    get daemonSet() {
      return seen && { name: seen.name, uid: seen.uid };
    },
    get nodeHosts() {
      return seen?.nodeHosts;
    },
    get agents() {
      return seen?.agents ?? 1;
    },
    get starting() {
      return seen?.starting ?? 1;
    },
    read: first.promise,
    async askNow() {
      if (seen === undefined || leaving) return leaving;
      const answer = await readAtEnd(read, seen);
      const before = seen;
      if (answer !== "gone") seen = answer;
      set(answer === "gone" || answer.leaving || answer.uid !== before.uid, before);
      return leaving;
    },
    async stop() {
      await poller.stop();
    },
  };
}

function intervalMs(agents: number): number {
  return Math.max(MIN_INTERVAL_MS, spreadMs(agents, READS_PER_SECOND, MAX_INTERVAL_MS));
}

/**
 * One more read. Without the right to read for a while the DaemonSet is gone; without an answer it is as it was
 * `before`.
 */
async function readAtEnd(read: () => Promise<Seen | "gone">, before: Seen): Promise<Seen | "gone"> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await read();
    } catch (error) {
      if (!isRefused(error)) return before;
      if (tries === REFUSED_TRIES) return "gone";
      await pause(REFUSED_PAUSE_MS);
    }
  }
}

function isRefused(error: unknown): boolean {
  const status = statusOf(error);
  return status === 401 || status === 403;
}

/** Metadata alone leaves the numbers as they were `before`. */
function seenOf({ metadata, status }: RawDaemonSet, before: Seen | undefined): Seen {
  const agents = Math.max(1, status === undefined ? (before?.agents ?? 1) : (status.desiredNumberScheduled ?? 1));
  const ready = status === undefined ? agents - (before?.starting ?? 1) : (status.numberReady ?? 0);
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    leaving: metadata?.annotations?.[LEAVING_KEY] === "true" || metadata?.deletionTimestamp !== undefined,
    nodeHosts: metadata?.annotations?.[NODE_HOSTS_KEY] === "true",
    agents,
    starting: Math.max(1, agents - ready),
  };
}
