import { type Fact, known, notKnown } from "#doctor/fact.ts";
import type { ClusterFacts, ServiceFacts, WebhookEntry } from "#doctor/facts.ts";
import type { DialResult, ProbeOutcome, ProbeResult } from "#doctor/probe/result.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { listenersOf } from "#lib/documents/listeners.ts";
import type { PublishedTarget } from "#lib/documents/targets-format.ts";

// The facts of a healthy installation: one ingress-nginx behind a short-circuited load balancer, one name, one opted-in
// pod. Each test changes one of them.

export const NAME = "shop.example.com";
export const BALANCER_IP = "192.0.2.80";
export const FRONT_IP = "198.51.100.9";
export const UPSTREAM_IP = "198.51.100.80";
export const NAMESPACE = "switchback-system";

export const CONFIG = parseConfig({});

const ANSWERED: ProbeOutcome = { kind: "answered", detail: "HTTP 404" };
export const CLOSED: ProbeOutcome = { kind: "closed", detail: "the connection was reset" };

/** A fact that the doctor could not read. */
export const FORBIDDEN: Fact<never> = notKnown("right-missing", "missing permission: get that");

const blank = { labels: {}, annotations: {}, selector: {}, entries: [], sourceRanges: [], conditions: [] };
const port = (number: number) => ({ name: `p${number}`, port: number, appProtocol: "" });

export const NGINX: ServiceFacts = {
  ...blank,
  namespace: "ingress-nginx",
  name: "ingress-nginx-controller",
  type: "LoadBalancer",
  clusterIPs: [UPSTREAM_IP],
  ports: [port(80), port(443)],
  entries: [{ ip: BALANCER_IP, ipMode: "VIP" }],
};

/** The target, as published to the proxies. */
export const RELAYED: PublishedTarget = {
  name: "ingress-nginx",
  upstream: "ingress-nginx-controller.ingress-nginx.svc.cluster.local.",
  ports: listenersOf(CONFIG.targets).map(({ port: number, listenPort, upstreamPort, protocol }) => {
    return { port: number, listenPort, upstreamPort, protocol };
  }),
  clusterIPs: [FRONT_IP],
};

export function entry(name: string, change: Partial<WebhookEntry> = {}): WebhookEntry {
  return { name: `${name}.switchback.dev`, failurePolicy: "Ignore", serviceNamespace: NAMESPACE, ...change };
}

/** The webhook entry that is not about pods. */
const REACHABLE = entry("reachable", { failurePolicy: "Fail" });

const deployment = (name: string) => ({ name, desired: 2, ready: 2, image: "example.com/s:1", pullPolicy: "Always" });

export const HEALTHY: ClusterFacts = {
  namespace: NAMESPACE,
  probeNamespace: "default",
  services: known([NGINX]),
  names: known({ names: [{ name: NAME, service: "ingress-nginx/ingress-nginx-controller" }], unread: [] }),
  namespaces: known(
    new Map([
      ["default", { inject: undefined, onChange: undefined }],
      ["shop", { inject: "enabled", onChange: undefined }],
    ]),
  ),
  selfChecks: known(false),
  install: {
    config: known(CONFIG),
    targets: known([RELAYED]),
    deployments: known(["controller", "webhook", "proxy"].map((name) => deployment(`switchback-${name}`))),
    status: known({
      leader: true,
      synced: true,
      sources: [{ name: "ingress", synced: true }],
      warnings: [],
      names: [{ name: NAME }],
    }),
  },
  endpoints: known([{ namespace: NGINX.namespace, name: NGINX.name, ready: 1 }]),
  admission: {
    configuration: known([entry("namespace"), entry("pod"), REACHABLE]),
    dryRun: known({ outcome: "injected" }),
  },
  pods: known([{ namespace: "shop", name: "web", labels: {}, annotations: {} }]),
  probe: known(probed({})),
};

/**
 * The outcome of each dial to ports 80 and 443 of `service`. Default: nginx with `listen ... proxy_protocol` that
 * trusts all senders.
 */
export interface Ways {
  readonly service?: ServiceFacts;
  readonly none?: ProbeOutcome;
  readonly v1?: ProbeOutcome;
  readonly v2?: ProbeOutcome;
  readonly balancer?: ProbeOutcome;
  /** The outcome at the load balancer's address, with v1. */
  readonly balancerV1?: ProbeOutcome;
  readonly front?: ProbeOutcome;
  readonly addresses?: readonly string[];
  readonly failure?: string;
}

export function probed(ways: Ways): ProbeResult {
  const { service = NGINX, none = CLOSED, v1 = ANSWERED, v2 = ANSWERED, balancer = CLOSED, front = ANSWERED } = ways;
  const dials = service.ports.flatMap(({ port: servicePort }): DialResult[] => {
    const common = { service: `${service.namespace}/${service.name}`, servicePort, port: servicePort, name: NAME };
    const speaks = servicePort === 443 ? ("tls" as const) : ("http" as const);
    const dial = (via: DialResult["via"], header: DialResult["header"], outcome: ProbeOutcome): DialResult => {
      return { ...common, speaks, via, header, address: "198.51.100.1", outcome };
    };
    return [
      dial("service", "none", none),
      dial("service", "v1", v1),
      dial("service", "v2", v2),
      dial("balancer", "none", balancer),
      dial("balancer", "v1", ways.balancerV1 ?? balancer),
      dial("front", "none", front),
    ];
  });
  const { failure, addresses = failure === undefined ? [BALANCER_IP] : [] } = ways;
  return { dials, lookups: [{ name: NAME, addresses: [...addresses], ...(failure !== undefined && { failure }) }] };
}

/** Switchback is not installed. */
export const NOT_INSTALLED: ClusterFacts = {
  ...HEALTHY,
  install: {
    config: known(undefined),
    targets: known(undefined),
    deployments: known([]),
    status: notKnown("not-read", "404"),
  },
  endpoints: known([]),
  admission: { configuration: known(undefined), dryRun: known({ outcome: "untouched" }) },
  pods: known([]),
  probe: undefined,
};
