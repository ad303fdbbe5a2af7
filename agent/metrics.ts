import { Gauge, Registry } from "prom-client";
import type { FollowerState } from "./follower.ts";

/** What the agent shows of itself, read when somebody asks. */
export function createAgentMetrics(state: () => FollowerState): Registry {
  const registry = new Registry();
  const registers = [registry];
  const gauge = (name: string, help: string, value: (now: FollowerState) => number): void => {
    new Gauge({
      name: `switchback_agent_${name}`,
      help,
      registers,
      collect() {
        this.set(value(state()));
      },
    });
  };
  gauge("pods", "Pods of the node that follow the map by their hosts file.", ({ live }) => live);
  gauge("in_step", "1 while every one of them has the newest map.", ({ applied }) => (applied === undefined ? 0 : 1));
  gauge("written_files", "Hosts files written since the start.", ({ written }) => written);
  gauge("round_seconds", "From the arrival of the last map to the last file written.", ({ roundMs }) => roundMs / 1000);
  new Gauge({
    name: "switchback_agent_refused_pods",
    help: "Pods whose hosts file cannot be written, by reason code.",
    labelNames: ["code"],
    registers,
    collect() {
      this.reset();
      for (const { reason } of state().problems) this.inc({ code: reason.code });
    },
  });
  return registry;
}
