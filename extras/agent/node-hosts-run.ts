import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import { protectNames } from "#hostmap/protected-names.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Health } from "#lib/http/listen.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import { nodeHostsSettings } from "./config.ts";
import type { DaemonSetPoll } from "./daemon-set-poll.ts";
import { hostsFileLimits } from "./hosts-file-limits.ts";
import { NodeHosts, nodeHostsPath } from "./node-hosts.ts";
import { openNodeHostsFile } from "./node-hosts-file.ts";
import type { NodeHostsReport } from "./node-hosts-report.ts";

/** The node's own hosts file, in a running agent. Without the mount of that file, it does nothing. */
export interface RunningNodeHosts {
  /**
   * Whether the file should have names: names are chosen, the DaemonSet has not withdrawn them, and no uninstall is
   * running.
   */
  readonly wanted: boolean;
  /** Whether the file is known to have no block of ours. */
  readonly isClean: boolean;
  /** Report for the Lease. Undefined if the file should have no names. */
  readonly report: NodeHostsReport | undefined;
  /** Names that pods on the host's network inherit from the file (`HostsReconciler`). */
  inherited(): SelectedHosts | "unknown" | undefined;
  setMap(map: PublishedMap | undefined): void;
  reconcile(): void;
  /** A failing liveness if the container must be restarted, else undefined. */
  restart(): Health | undefined;
  close(): void;
}

/** Dependencies that tests replace. */
interface Replaced {
  readonly now?: () => number;
  readonly open?: typeof openNodeHostsFile;
  readonly path?: string | undefined;
}

/** The kubelet restarts a container without a delay if it has run for ten minutes. */
const RESTART_AFTER_MS = 10 * 60_000;

/** Opens the node's hosts file where the chart mounts it. Throws `config-invalid` if its directory cannot be opened. */
export function runNodeHosts(
  config: Pick<Config, "inject" | "clusterDomain">,
  daemonSet: Pick<DaemonSetPoll, "uninstalling" | "nodeHosts">,
  log: Logger,
  { now = steadyNow, open = openNodeHostsFile, path: mounted }: Replaced = {},
): RunningNodeHosts {
  const { names } = nodeHostsSettings(config);
  const { maxNames } = config.inject;
  const path = nodeHostsPath(config, mounted);
  const file = path === undefined ? undefined : open(path, process.geteuid?.(), hostsFileLimits(maxNames));
  const hosts = file && new NodeHosts({ file, names, maxNames, protect: protectNames(config.clusterDomain), log });
  if (names.length > 0) log.info({ path, names }, "names for the node: pods on the host's network inherit them");
  const started = now();
  const isWanted = (): boolean => names.length > 0 && !daemonSet.uninstalling && daemonSet.nodeHosts !== false;
  return {
    get wanted() {
      return isWanted();
    },
    get isClean() {
      return hosts?.isClean ?? true;
    },
    get report() {
      return isWanted() ? hosts?.report : undefined;
    },
    inherited: () => (isWanted() ? (hosts?.selected ?? "unknown") : undefined),
    setMap: (map) => hosts?.setMap(map),
    reconcile: () => hosts?.reconcile(isWanted()),
    restart() {
      if (hosts?.isReplaced !== true) return undefined;
      // Wait until the kubelet's back-off has expired, unless the block must be removed.
      if (isWanted() && now() - started < RESTART_AFTER_MS) return undefined;
      const text = "node-hosts-replaced: the node's hosts file was replaced; a restart makes the agent see the new one";
      return { ok: false, text };
    },
    close: () => file?.close(),
  };
}
