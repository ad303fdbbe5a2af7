import { describeError, statusOf } from "#lib/errors/errors.ts";
import { METADATA_WATCH } from "#lib/kube/accept.ts";
import { createBackoff } from "#lib/kube/backoff.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ReconcileResult, Reconciler } from "#lib/kube/reconciler.ts";
import { pause } from "#lib/kube/time.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { AGENT_DAEMON_SET } from "./agent-lease-format.ts";
import { LEAVING_KEY, NODE_HOSTS_KEY } from "./metadata-keys.ts";
import { spreadMs } from "./spread.ts";

export interface DaemonSetPoll {
  /**
   * True if the agents' DaemonSet is being deleted or requests an uninstall. The agent then removes every block from
   * the node.
   */
  readonly uninstalling: boolean;
  /**
   * Whether the DaemonSet asks for names in the node's hosts file. Undefined if not known, or if the agent runs by
   * hand.
   */
  readonly nodeHosts: boolean | undefined;
  /** The DaemonSet as it was last seen. */
  readonly daemonSet: { readonly name: string; readonly uid: string } | undefined;
  /** Number of agents that should run; 1 while not known. */
  readonly agents: number;
  /** Number of agents that are not ready, including this one. */
  readonly starting: number;
  /** Resolves after the first read, even if it failed. */
  readonly read: Promise<void>;
  /**
   * Reads the DaemonSet once more before the process stops, to distinguish an uninstall from an upgrade, which keeps
   * the DaemonSet. Returns whether this is an uninstall. Without an answer, nothing changes. If the right to read the
   * DaemonSet is gone, the install is gone too: Helm deletes Roles and ServiceAccounts within a second of the
   * DaemonSet.
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

/** Reads per second of all agents together. */
const READS_PER_SECOND = 50;
/**
 * Shortest time (with few agents) and longest time between two reads, in milliseconds. An uninstall is detected this
 * late. Its hook waits for four minutes.
 */
const MIN_INTERVAL_MS = 10_000;
const MAX_INTERVAL_MS = 100_000;
/**
 * Maximum share of the interval by which a read comes early. Agents that started together then do not read together.
 */
const JITTER = 0.25;
const TIMEOUT_MS = 2_000;
/**
 * In each series of this many reads, the first also requests the status, with the number of agents. The others
 * request only metadata, which is half of the bytes.
 */
const READS_WITH_STATUS = 10;
/** Tries while the API server refuses: a server that has just started refuses everyone for a moment. */
const REFUSED_TRIES = 5;
const REFUSED_PAUSE_MS = 1_000;

/**
 * Reads the agents' DaemonSet periodically, and when the process has to stop. A watch would receive a change of
 * status on every node for each agent that becomes ready: 25 million events at the install of 5,000 agents. A
 * DaemonSet that was never seen (the agent runs by hand) means nothing. A DaemonSet that has disappeared means
 * uninstall.
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
 * Reads once more. If the API server keeps refusing, the DaemonSet is gone. Without an answer, it is as it was
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

/** If there is only metadata, the numbers stay as they were `before`. */
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
