import { decodeRecord, encodeRecord } from "#controller/rollout/restart-record.ts";
import { PRESETS } from "#controller/sources/custom.ts";
import { type GatewayObject, viewGateway, viewListenerSet, viewRoute } from "#controller/sources/gateway/view.ts";
import { claimsOfIngress, viewIngress } from "#controller/sources/ingress-hosts.ts";
import {
  isIstio,
  istioClaims,
  viewGateway as viewIstioGateway,
  viewVirtualService,
} from "#controller/sources/istio.ts";
import type { Raw } from "#controller/sources/raw-object.ts";
import type { View } from "#controller/sources/types.ts";
import { viewService } from "#controller/targets/service-view.ts";
import { targetOfService } from "#controller/targets/target.ts";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { parseHosts } from "#hostmap/hosts-text.ts";
import { Plan } from "#hostmap/plan.ts";
import type { PresetName } from "#lib/config/sources.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { listenersOfPublished, parseTargets } from "#lib/documents/targets-format.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { LogThrottle } from "#lib/telemetry/log-throttle.ts";
import { ownerOf } from "#lib/workloads/owners.ts";
import { podFacts } from "#lib/workloads/pods.ts";
import { workloadState } from "#lib/workloads/workload-state.ts";
import { answerReview } from "#webhook/admission-response.ts";
import { decodeReview } from "#webhook/admission-review.ts";
import { createInjectionCache } from "#webhook/injection-cache.ts";
import { createWebhookMetrics } from "#webhook/metrics.ts";
import { gatewayObject, gatewayWorld, listenerSetObject, routeObject } from "../fakes/gateway-objects.ts";
import { extraModules } from "../files.ts";
import { PRESET_OBJECTS } from "../integration/preset-objects.ts";
import { MAX_BYTES, type Surface, tolerant } from "./fuzz.ts";

const MAX_NAMES = 500;
const ADDRESS = "198.51.100.9";
const NAMES = Array.from({ length: 1_000 }, (_, index) => `name-${index}.example.com`);
const MAP = publishedMapOf("r1", new Map(NAMES.map((name) => [name, [ADDRESS]])));
const RULES = { namespaces: [], denyNamespaces: [], allowDomains: [], denyDomains: [], maxNamesPerNamespace: 1_000 };

function planned(claims: readonly View[]): void {
  const plan = new Plan(createClaimPolicy(RULES, "cluster.local"), 1_000);
  plan.set(
    "object",
    claims.map((claim) => ({ ...claim, target: "ingress-nginx" })),
  );
  plan.takeChanges();
}

const CREATED = "2026-01-01T00:00:00Z";
const METADATA = { name: "shop", namespace: "shop", uid: "u", creationTimestamp: CREATED, annotations: {} };

const POD = {
  metadata: {
    ...METADATA,
    labels: { app: "shop", "pod-template-hash": "abc" },
    annotations: {
      "switchback.dev/hosts": "name-1.example.com, *.example.com",
      "switchback.dev/owned": "1 2",
      "switchback.dev/injected": `${ADDRESS} name-1.example.com`,
      "switchback.dev/revision": "r1",
    },
    ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "shop-abc", uid: "u", controller: true }],
  },
  spec: {
    nodeName: "node-1",
    hostAliases: [
      { ip: "192.0.2.1", hostnames: ["mine.example.com", "name-2.example.com"] },
      { ip: ADDRESS, hostnames: ["name-1.example.com"] },
    ],
    containers: [{ name: "c", image: "example.com/c:1" }],
  },
};

function admission(): Surface {
  const cache = createInjectionCache(MAP, MAX_NAMES);
  const options = {
    map: () => cache,
    metrics: createWebhookMetrics(),
    log: silentLogger,
    throttle: new LogThrottle(60_000, () => performance.now()),
  };
  const review = {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: "00000000-0000-4000-8000-000000000000",
      kind: { group: "", version: "v1", kind: "Pod" },
      namespace: "shop",
      operation: "CREATE",
      object: POD,
    },
  };
  return {
    name: "admission reviews",
    seeds: [review],
    prepare: (input) => Buffer.from(JSON.stringify(input) ?? "null"),
    feed(body) {
      answerReview(decodeReview(body as Buffer), { optIn: "namespace" }, options, performance.now());
    },
  };
}

const text = (name: string, seeds: readonly string[], feed: (text: string) => void): Surface => ({
  name,
  seeds,
  prepare: (input) => String(input).slice(0, MAX_BYTES),
  feed: (input) => feed(String(input)),
});

const INGRESS = {
  metadata: {
    ...METADATA,
    annotations: {
      "nginx.ingress.kubernetes.io/server-alias": "alias.example.com, *.alias.example.com",
      "nginx.ingress.kubernetes.io/from-to-www-redirect": "true",
    },
  },
  spec: {
    ingressClassName: "nginx",
    rules: [{ host: "a.example.com" }, { host: "*.example.com" }],
    tls: [{ hosts: ["a.example.com"], secretName: "tls" }],
  },
  status: { loadBalancer: { ingress: [{ ip: "192.0.2.1", ports: [{ port: 80 }] }, { hostname: "lb.example.com" }] } },
};

const SERVICE = {
  metadata: {
    ...METADATA,
    annotations: {
      "switchback.dev/proxy-protocol": "v2",
      "external-dns.alpha.kubernetes.io/hostname": "a.example.com",
    },
  },
  spec: {
    type: "LoadBalancer",
    clusterIP: "198.51.100.7",
    clusterIPs: ["198.51.100.7"],
    ports: [{ name: "http", port: 80, protocol: "TCP" }],
  },
  status: { loadBalancer: { ingress: [{ ip: "192.0.2.1", ipMode: "VIP" }] } },
};

const LISTENERS = [{ hostname: "*.example.com" }, { hostname: "a.example.com", from: "All" }];
const GATEWAY = gatewayObject("gateway", LISTENERS, {}, { from: "All" });
const LISTENER_SET = listenerSetObject("set", "gateway", LISTENERS);
const ROUTE = routeObject("route", [{ name: "gateway" }], ["a.example.com", "b.example.com"]);

/** The claims of an object of Gateway API beside a Gateway and a ListenerSet. */
function gatewayApiClaims(view: GatewayObject): readonly View[] {
  const world = gatewayWorld({ requireAccepted: false });
  for (const other of [viewGateway(GATEWAY), viewListenerSet(LISTENER_SET)]) world.put(other);
  return world.claims(world.put(view));
}

/** The claims of an Istio Gateway, or of a VirtualService at a typical Gateway. */
function claimsOfIstio(raw: object, kind: string): readonly View[] {
  const usual = viewIstioGateway({ metadata: METADATA, spec: PRESET_OBJECTS["istio-gateway"].spec });
  const own = kind === "Gateway" ? viewIstioGateway(raw as Raw) : viewVirtualService(raw as Raw);
  const objects = new Map([
    ["Gateway shop/shop", usual],
    [kind, own],
  ]);
  return istioClaims(objects, { gateways: true })(own, kind);
}

function readPreset(preset: keyof typeof PRESETS) {
  return (raw: Raw, kind: string) => PRESETS[preset].project(raw, kind)?.views ?? [];
}

const customs: readonly Surface[] = Object.entries(PRESET_OBJECTS).map(
  ([preset, { kind, spec, status, annotations }]) => {
    const read = isIstio(preset as PresetName) ? claimsOfIstio : readPreset(preset as keyof typeof PRESETS);
    return {
      name: `${kind} objects`,
      seeds: [{ metadata: { ...METADATA, annotations: { ...annotations } }, spec, ...(status && { status }) }],
      feed: (raw) => planned(read(raw as never, kind)),
    };
  },
);

const added = await extraModules<{ readonly SURFACES: readonly Surface[] }>("fakes/surfaces.ts");

/** Everything that a tenant, a container or another process writes and that a component reads. */
export const SURFACES: readonly Surface[] = [
  admission(),
  {
    name: "Ingresses",
    seeds: [INGRESS],
    feed: tolerant((raw) => planned(claimsOfIngress(viewIngress(raw), "nginx"))),
  },
  {
    name: "Gateways",
    seeds: [GATEWAY],
    feed: tolerant((raw) => planned(gatewayApiClaims(viewGateway(raw)))),
  },
  {
    name: "ListenerSets",
    seeds: [LISTENER_SET],
    feed: tolerant((raw) => planned(gatewayApiClaims(viewListenerSet(raw)))),
  },
  {
    name: "HTTPRoutes",
    seeds: [ROUTE],
    feed: tolerant((raw) => planned(gatewayApiClaims(viewRoute(raw)))),
  },
  { name: "Services", seeds: [SERVICE], feed: tolerant((raw) => void targetOfService(viewService(raw, "v1"))) },
  ...customs,
  {
    name: "pods and their owners",
    seeds: [POD],
    feed: tolerant((raw) => void ownerOf(podFacts(raw))),
  },
  {
    name: "workloads",
    seeds: [
      {
        metadata: METADATA,
        spec: { replicas: 2, template: { metadata: {}, spec: POD.spec } },
        status: { replicas: 2 },
      },
    ],
    feed: tolerant((raw) => void workloadState("Deployment", raw)),
  },
  text(
    "the map's text",
    [
      NAMES.slice(0, 20)
        .map((name) => `${ADDRESS} ${name} # shop\n`)
        .join(""),
    ],
    (it) => void parseHosts(it),
  ),
  text(
    "the targets document",
    [
      '{"version":1,"revision":"r","targets":[{"name":"a","upstream":{"service":{"namespace":"a","name":"b"}},"ports":[{"port":80,"listenPort":20080,"protocol":"v2"}]}]}',
    ],
    (it) => {
      const parsed = parseTargets(it);
      if ("targets" in parsed) listenersOfPublished(parsed);
    },
  ),
  text("restart records", [encodeRecord([])], (it) => void decodeRecord(it)),
  ...added.flatMap(({ SURFACES: ofExtra }) => ofExtra),
];
