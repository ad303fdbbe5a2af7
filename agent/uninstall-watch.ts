import { statusOf } from "../errors/errors.ts";
import { LEAVING_KEY } from "../hostmap/metadata-keys.ts";
import type { KubeClient } from "../kube/client.ts";
import type { ApiObject } from "../kube/types.ts";
import { watchObjects } from "../kube/watch.ts";
import { AGENT_DAEMON_SET } from "../snapshot/agent-lease-format.ts";
import type { Logger } from "../telemetry/log.ts";
import { workloadPath } from "../workloads/workload-kinds.ts";

interface UninstallWatch {
  /** True once the agents' DaemonSet is being deleted or requests an uninstall: every block is then removed from the node. */
  readonly uninstalling: boolean;
  /** The DaemonSet as it was last seen. */
  readonly daemonSet: { readonly name: string; readonly uid: string } | undefined;
  /** Milliseconds since the watch last received or tried anything. */
  readonly inactiveMs: number;
  /** Reads the DaemonSet once more, for a process that has to stop: an upgrade keeps it. Without an answer nothing changes. */
  askNow(): Promise<boolean>;
  stop(): Promise<void>;
}

interface Seen {
  readonly name: string;
  readonly uid: string;
  readonly leaving: boolean;
}

/** Watches the agents' DaemonSet. One that was never there (an agent run by hand) means nothing; one that is gone means uninstall. */
export function watchUninstall(deps: {
  readonly client: Pick<KubeClient, "get" | "stream">;
  readonly namespace: string;
  readonly log: Logger;
  readonly onChange: () => void;
}): UninstallWatch {
  const { client, namespace, log, onChange } = deps;
  let seen: Seen | undefined;
  let leaving = false;
  const set = (next: boolean): void => {
    if (next === leaving) return;
    leaving = next;
    log.info({}, leaving ? "uninstall: the blocks are removed from the hosts files" : "uninstall: cancelled");
    onChange();
  };
  const watcher = watchObjects<Seen>({
    client,
    path: workloadPath(namespace, "DaemonSet"),
    fieldSelector: `metadata.name=${AGENT_DAEMON_SET}`,
    project: seenOf,
    onChange({ after }) {
      seen = after ?? seen;
      set(after?.leaving ?? true);
    },
    log,
  });
  return {
    get uninstalling() {
      return leaving;
    },
    get daemonSet() {
      return seen && { name: seen.name, uid: seen.uid };
    },
    get inactiveMs() {
      return watcher.state.inactiveMs;
    },
    async askNow() {
      if (seen === undefined || leaving) return leaving;
      try {
        const now = seenOf(
          await client.get(workloadPath(namespace, "DaemonSet", AGENT_DAEMON_SET), {}, { timeoutMs: 2_000 }),
        );
        set(now.leaving || now.uid !== seen.uid);
      } catch (error) {
        if (statusOf(error) === 404) set(true);
      }
      return leaving;
    },
    stop: () => watcher.stop(),
  };
}

function seenOf({ metadata }: ApiObject): Seen {
  return {
    name: metadata?.name ?? "",
    uid: metadata?.uid ?? "",
    leaving: metadata?.annotations?.[LEAVING_KEY] === "true" || metadata?.deletionTimestamp !== undefined,
  };
}
