import type { MetricsText } from "../telemetry/health.ts";
import type { HostsReconcilerState } from "./hosts-reconciler.ts";

/** Gauges of a few numbers: prom-client would cost 8 MB on every node for them. */
const GAUGES: ReadonlyArray<readonly [name: string, help: string, value: (state: HostsReconcilerState) => number]> = [
  ["pods", "Pods of the node that follow the map by their hosts file.", ({ live }) => live],
  ["in_step", "1 while every one of them has the newest map.", ({ applied }) => (applied === undefined ? 0 : 1)],
  ["written_files", "Hosts files written since the start.", ({ written }) => written],
  ["round_seconds", "From the arrival of the last map to the last file written.", ({ roundMs }) => roundMs / 1000],
];

/** What the agent shows of itself, as it is when somebody asks. */
export function agentMetrics(read: () => HostsReconcilerState): MetricsText {
  return {
    contentType: "text/plain; version=0.0.4; charset=utf-8",
    metrics() {
      const state = read();
      const lines = GAUGES.flatMap(([name, help, value]) => gauge(name, help, [["", value(state)]]));
      const refused = Map.groupBy(state.problems, ({ reason }) => reason.code);
      const counts = [...refused].map(([code, of]) => [`{code="${code}"}`, of.length] as const);
      return [
        ...lines,
        ...gauge("refused_pods", "Pods whose hosts file cannot be written, by reason code.", counts),
        "",
      ].join("\n");
    },
  };
}

function gauge(name: string, help: string, samples: ReadonlyArray<readonly [labels: string, value: number]>): string[] {
  const full = `switchback_agent_${name}`;
  return [
    `# HELP ${full} ${help}`,
    `# TYPE ${full} gauge`,
    ...samples.map(([labels, value]) => `${full}${labels} ${value}`),
  ];
}
