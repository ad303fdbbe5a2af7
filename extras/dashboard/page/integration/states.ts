import { known, notKnown } from "#doctor/fact.ts";
import type { ReportDocument } from "#doctor/report.ts";
import type { Components } from "#extras/dashboard/server/messages.ts";
import { seriesIn } from "#extras/dashboard/server/metrics-text.ts";
import { isShown, type PodMetrics } from "#extras/dashboard/server/traffic.ts";
import { ASKED_TARGET, fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";

// What the dashboard shows in its tests: a healthy installation, and a broken one.

export const HEALTHY = fullStatus(
  {
    names: Array.from({ length: 40 }, (_, index) => ({ ...NAME, name: `shop-${index}.example.com` })),
    targets: [...fullStatus().targets, ASKED_TARGET],
  },
  {
    workloads: [
      { ...WORKLOAD, standing: "in-step", stale: 0, notInjected: 0, code: "current", text: "every pod has the names" },
    ],
  },
);
export const BROKEN = fullStatus(
  {
    names: [
      NAME,
      REFUSED,
      {
        ...NAME,
        name: "late.example.com",
        addresses: [],
        reason: { code: "target-without-address", text: "the target edge has no known ClusterIP" },
      },
      {
        ...NAME,
        name: "elsewhere.example.com",
        warning: { code: "dns-elsewhere", text: "it resolves to 203.0.113.9" },
      },
    ],
    hold: { since: 0, until: 1_900_000_000_000, names: 30, of: 40 },
    warnings: [{ code: "many-names", text: "a pod without a selection gets all 400 names" }],
    sources: [
      { name: "HTTPRoute", synced: false, problems: [{ place: "a.yaml", code: "yaml-invalid", text: "line 3" }] },
    ],
  },
  {
    workloads: [
      WORKLOAD,
      {
        ...WORKLOAD,
        namespace: "shop",
        name: "web",
        standing: "waiting",
        code: "waiting-for-turn",
        text: "cert-manager/Deployment/cert-manager is restarted first",
      },
    ],
  },
);
export const REPORT: ReportDocument = {
  headline: "Switchback has 1 fault",
  status: "broken",
  counts: { ok: 1, unknown: 1, warning: 0, broken: 1 },
  findings: [
    {
      check: "install",
      subject: "Deployment switchback-proxy",
      status: "ok",
      code: "deployment-ready",
      evidence: "2 of 2 pods are ready",
      cures: [],
    },
    {
      check: "relay",
      subject: "target edge",
      status: "broken",
      code: "dial-failing",
      evidence: "connection refused",
      cures: ["start the ingress controller"],
    },
    {
      check: "pods",
      subject: "pods",
      status: "unknown",
      code: "right-missing",
      evidence: "missing permission: list pods",
      cures: [],
    },
  ],
};

export const HEALTHY_REPORT: ReportDocument = {
  headline: "Switchback works: pods reach the cluster's names",
  status: "ok",
  counts: { ok: 1, unknown: 0, warning: 0, broken: 0 },
  findings: REPORT.findings.filter(({ status }) => status === "ok"),
};

const MISSING = notKnown("right-missing", "missing permission: list leases in the namespace switchback-agent");
const deployment = (name: string, ready: number) => ({
  name,
  ready,
  desired: 2,
  image: "registry.example.com/switchback:0.1.0",
  pullPolicy: "Always",
});
const UPSTREAM = { namespace: "ingress-nginx", name: "ingress-nginx-controller" };
const PUBLISHER = {
  name: "coredns-import",
  place: "ConfigMap kube-system/coredns-custom",
  names: 40,
  leftOut: 0,
  behindSince: undefined,
  problem: undefined,
};
export const HEALTHY_COMPONENTS: Components = {
  deployments: known([
    deployment("switchback-controller", 2),
    deployment("switchback-webhook", 2),
    deployment("switchback-proxy", 2),
  ]),
  agents: known([{ name: "switchback-agent-node-1", mapRevision: "abc", silentMs: 5_000, alive: true }]),
  upstreams: known([{ ...UPSTREAM, ready: 2 }]),
  publishers: known([PUBLISHER]),
};
/** The Deployment of the proxies was deleted. */
export const WITHOUT_PROXY: Components = {
  ...HEALTHY_COMPONENTS,
  deployments: known([deployment("switchback-controller", 2), deployment("switchback-webhook", 2)]),
};
/** The API server does not answer at its address. */
export const AWAY = notKnown(
  "not-read",
  'https://192.0.2.1:6443 (context "prod" of kubeconfig /home/me/.kube/config): nothing listens there; ' +
    "is the address right, and the API server running? (ECONNREFUSED)",
);
export const AWAY_COMPONENTS: Components = { deployments: AWAY, agents: AWAY, upstreams: AWAY, publishers: AWAY };
export const BROKEN_COMPONENTS: Components = {
  deployments: known([
    deployment("switchback-controller", 1),
    deployment("switchback-webhook", 2),
    deployment("switchback-proxy", 0),
  ]),
  agents: MISSING,
  upstreams: known([{ ...UPSTREAM, ready: 0 }]),
  publishers: known([
    PUBLISHER,
    {
      ...PUBLISHER,
      name: "coredns",
      leftOut: 2,
      problem: { code: "publisher-taken-back", text: "kubectl-edit took it back" },
    },
  ]),
};

/** Metrics after this many scrapes: those of a proxy, a webhook, and a controller with its certificates. */
export function measuredAfter(scrapes: number, failing: boolean): PodMetrics {
  const inDays = (days: number) => Math.round(Date.now() / 1_000) + days * 86_400;
  const count = scrapes * 40;
  const lines = [
    `switchback_proxy_connections_total{target="edge"} ${count}`,
    `switchback_proxy_connections_active{target="edge"} ${30 + (scrapes % 7)}`,
    ...(failing ? [`switchback_proxy_refused_total{target="edge",cause="upstream"} ${count / 2}`] : []),
    ...Object.entries({ "0.001": 0.6, "0.005": 0.995, "+Inf": 1 }).map(
      ([le, share]) => `switchback_proxy_connect_seconds_bucket{target="edge",le="${le}"} ${count * share}`,
    ),
    `switchback_proxy_upstream_ok{target="edge",port="443"} ${failing ? 0 : 1}`,
    `switchback_webhook_admissions_total{code="injected",opt_in="pod"} ${scrapes * 3}`,
    `switchback_certificate_expiry_timestamp_seconds{certificate="ca"} ${inDays(300)}`,
    `switchback_certificate_expiry_timestamp_seconds{certificate="serving"} ${inDays(failing ? 0.5 : 20)}`,
    `switchback_certificates_state{code="${failing ? "issued" : "steady"}"} 1`,
    `switchback_certificates_failing ${Number(failing)}`,
  ];
  return { pod: "a:1", series: seriesIn(lines.join("\n"), isShown) };
}
