import { countBy, MetricsRegistry } from "#lib/telemetry/metrics.ts";
import type { HostsReconcilerState } from "./hosts-reconciler.ts";
import type { NodeHostsReport } from "./node-hosts-report.ts";

/** The agent's metrics. `read` is called at each scrape. */
export function agentMetrics(
  read: () => HostsReconcilerState & { readonly nodeHosts?: NodeHostsReport | undefined },
): MetricsRegistry {
  const registry = new MetricsRegistry();
  const gauge: MetricsRegistry["gauge"] = (name, ...rest) => registry.gauge(`switchback_agent_${name}`, ...rest);
  gauge("pods", "Pods of the node that follow the map by their hosts file.", () => read().live);
  gauge("in_step", "1 while each of these pods has the newest map.", () => (read().applied === undefined ? 0 : 1));
  registry.counterOf("switchback_agent_writes_total", "Hosts files written.", () => read().written);
  gauge("round_seconds", "From the arrival of the last map to the last file written.", () => read().roundMs / 1000);
  gauge("refused_pods", "Pods whose hosts file cannot be written, by reason code.", () =>
    countBy("code", read().problems, ({ reason }) => reason.code),
  );
  gauge("node_hosts_names", "Names in the hosts file of the node.", () => read().nodeHosts?.names ?? 0);
  gauge(
    "node_hosts_taken",
    "Names left out of that file, because somebody else's line has them.",
    () => read().nodeHosts?.taken.length ?? 0,
  );
  gauge("node_hosts_problem", "1 while that file is not current, by reason code.", () =>
    countBy(
      "code",
      [read().nodeHosts?.problem].filter((problem) => problem !== undefined),
      ({ code }) => code,
    ),
  );
  return registry;
}
