import type { RolloutStatus, WorkloadStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";

// The complete status of a leader, as `switchback status` reads it.

export const NAME: NameStatus = {
  name: "b.example.com",
  from: { kind: "Ingress", namespace: "shop", name: "web" },
  since: "2026-01-01T00:00:00Z",
  target: "edge",
  addresses: ["198.51.100.9"],
  reason: undefined,
};

const NO_TARGET = { code: "no-target", text: "no class \u001b[31m" };
export const REFUSED: NameStatus = {
  ...NAME,
  name: "a.example.com",
  target: undefined,
  addresses: [],
  reason: NO_TARGET,
};

/** A stuck workload. One of its two pods is stale. */
export const WORKLOAD: WorkloadStatus = {
  namespace: "cert-manager",
  kind: "Deployment",
  name: "cert-manager",
  pods: 2,
  stale: 1,
  notInjected: 1,
  mode: "restart",
  modeFrom: "install",
  standing: "stuck",
  code: "restart-not-permitted",
  text: "not listed",
  lastRestart: undefined,
  warnings: [],
};

const RUNNING: RolloutStatus = {
  unknown: undefined,
  underWay: undefined,
  waiting: 3,
  counts: { workloads: 0, pods: 0, stale: 0 },
  workloads: [],
  omitted: 0,
};

/** A target whose port 443 was asked about PROXY headers. */
export const ASKED_TARGET: FullStatus["targets"][number] = {
  name: "asked",
  relayed: true,
  clusterIPs: ["198.51.100.8"],
  upstream: "edge/web",
  ports: [
    { port: 80, protocol: "v1" },
    { port: 443, protocol: "v1", asked: { answer: "demands-v1" } },
  ],
};

/** A complete status. `change` replaces its fields, and `running` replaces fields of the rollout. */
export function fullStatus(change: Partial<FullStatus> = {}, running: Partial<RolloutStatus> = {}): FullStatus {
  return {
    leader: true,
    identity: "controller-0",
    synced: true,
    revision: "abc",
    sources: [{ name: "Ingress", synced: true, problems: [], inactiveMs: 12 }],
    targets: [
      {
        name: "edge",
        relayed: true,
        clusterIPs: ["198.51.100.9"],
        upstream: "ingress-nginx/ingress-nginx-controller",
        ports: [{ port: 443, protocol: "v2" }],
      },
    ],
    hold: undefined,
    warnings: [],
    leaving: [],
    names: [NAME, REFUSED],
    running: { ...RUNNING, counts: { ...RUNNING.counts, workloads: running.workloads?.length ?? 0 }, ...running },
    ...change,
  };
}
