import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { type IngressSoftware, KNOWN_SOFTWARE, softwareOf } from "#controller/targets/known-software.ts";
import { NGINX } from "#test/fakes/doctor-facts.ts";
import { acceptCure, optionalCures, trustCure } from "./header-cures.ts";

const UNKNOWN = { ...NGINX, name: "edge" };
const labelled = (label: string, value: string) => softwareOf({ ...UNKNOWN, labels: { [label]: value } });

/** The values that charts and operators set, and the cures to trust and to accept headers. */
const BY_NAME: readonly [title: string, values: readonly string[], trust: RegExp, accept: RegExp][] = [
  [
    "IBM Cloud's ALB",
    ["public-crbpq2cuoa00kl6prv7h60-alb1", "private-cr1-alb23"],
    /proxy-protocol enable --cluster CLUSTER --cidr/,
    /proxy-protocol enable --cluster CLUSTER`;/,
  ],
  ["F5 NGINX Ingress Controller", ["nginx-ingress"], /`set-real-ip-from`/, /`proxy-protocol: "True"`/],
  [
    "ingress-nginx",
    ["ingress-nginx", "rke2-ingress-nginx", "nginx-ingress-controller"],
    /`proxy-real-ip-cidr`/,
    /`use-proxy-protocol: "true"`/,
  ],
  ["Traefik", ["traefik"], /add .* to `entryPoints\.<name>\.proxyProtocol\.trustedIPs`/, /set `entryPoints\.<name>/],
  [
    "HAProxy Technologies' ingress controller",
    ["kubernetes-ingress", "haproxy-kubernetes-ingress"],
    /add .* to `proxy-protocol`/,
    /set `proxy-protocol`/,
  ],
  [
    "HAProxy Ingress",
    ["haproxy-ingress", "haproxy-ingress-controller"],
    /any address once `use-proxy-protocol`/,
    /`use-proxy-protocol: "true"`/,
  ],
  ["Contour", ["contour"], /once `--use-proxy-protocol` is set/, /start Contour with `--use-proxy-protocol`/],
  [
    "Istio's ingress gateway",
    ["istio-ingressgateway", "istio-ingress"],
    /once the gateway's `proxyProtocol` is set/,
    /`gatewayTopology: \{ proxyProtocol: \{\} \}`/,
  ],
  ["Cilium", ["cilium-ingress"], /and requires one/, /`ingressController\.enableProxyProtocol`/],
  ["Kong", ["kong"], /`KONG_TRUSTED_IPS`/, /`KONG_PROXY_LISTEN`.*`KONG_REAL_IP_HEADER=proxy_protocol`/],
  [
    "Emissary-ingress",
    ["emissary-ingress", "edge-stack", "ambassador"],
    /begins with PROXY/,
    /begin the Listener's `protocolStack` with PROXY/,
  ],
  ["Apache APISIX", ["apisix", "apisix-gateway"], /on its ports for the PROXY protocol/, /9181, 9182/],
  ["Pomerium", ["pomerium", "pomerium-proxy"], /once `useProxyProtocol` is set/, /`useProxyProtocol: true`/],
];

/** Labels that each implementation sets on the Service of a Gateway, or that its own manifests have. */
const BY_LABEL: readonly [title: string, labels: Readonly<Record<string, string>>, trust: RegExp, accept: RegExp][] = [
  [
    "NGINX Gateway Fabric",
    {
      "app.kubernetes.io/managed-by": "ngf-nginx",
      "app.kubernetes.io/name": "gateway-nginx",
      "gateway.networking.k8s.io/gateway-name": "gateway",
    },
    /`spec\.rewriteClientIP\.trustedAddresses`/,
    /`spec\.rewriteClientIP\.mode: ProxyProtocol`/,
  ],
  ["HAProxy Technologies' ingress controller", { run: "haproxy-ingress" }, /`proxy-protocol`/, /`proxy-protocol`/],
  ["Contour", { app: "envoy" }, /--use-proxy-protocol/, /--use-proxy-protocol/],
  [
    "Contour",
    { "projectcontour.io/owning-gateway-name": "edge", "app.kubernetes.io/name": "envoy" },
    /--use-proxy-protocol/,
    /--use-proxy-protocol/,
  ],
  [
    "Envoy Gateway",
    {
      "app.kubernetes.io/managed-by": "envoy-gateway",
      "app.kubernetes.io/name": "envoy",
      "gateway.envoyproxy.io/owning-gateway-name": "edge",
    },
    /once a ClientTrafficPolicy sets `proxyProtocol`/,
    /`proxyProtocol: \{\}` .*`enableProxyProtocol: true` before 1\.5/,
  ],
  [
    "Istio's ingress gateway",
    {
      "gateway.istio.io/managed": "istio.io-gateway-controller",
      "gateway.networking.k8s.io/gateway-class-name": "istio",
    },
    /`proxyProtocol` is set/,
    /proxy\.istio\.io\/config/,
  ],
  [
    "agentgateway",
    {
      "app.kubernetes.io/managed-by": "agentgateway",
      "gateway.networking.k8s.io/gateway-class-name": "agentgateway",
    },
    /once its policy sets `proxyProtocol`/,
    /version 2 unless/,
  ],
  [
    "kgateway",
    { "app.kubernetes.io/managed-by": "kgateway", "gateway.networking.k8s.io/gateway-class-name": "kgateway" },
    /once a ListenerPolicy sets `proxyProtocol`/,
    /`spec\.default\.proxyProtocol: \{\}`/,
  ],
  ["Cilium", { "io.cilium.gateway/owning-gateway": "edge" }, /and requires one/, /`gatewayAPI\.enableProxyProtocol`/],
];

function checkCures(software: IngressSoftware | undefined, title: string, trust: RegExp, accept: RegExp): void {
  for (const cure of [trustCure(software), acceptCure(software)])
    assert.match(cure, /^[^:]+: .* \(https:\/\/[^ ]+\)$/, "names it, and says where that is from");
  assert.ok(trustCure(software).startsWith(`${title}: `) && acceptCure(software).startsWith(`${title}: `));
  assert.match(trustCure(software), trust);
  assert.match(acceptCure(software), accept);
}

describe("an ingress controller is recognized", () => {
  for (const [title, values, trust, accept] of BY_NAME) {
    test(title, () => {
      for (const value of values) {
        assert.equal(labelled("app", value)?.title, title);
        assert.equal(labelled("app", `x${value}`), undefined);
        assert.equal(labelled("app", `${value}x`), undefined);
      }
      checkCures(labelled("app", values[0] ?? ""), title, trust, accept);
    });
  }

  for (const [title, labels, trust, accept] of BY_LABEL) {
    test(`${title}: ${Object.keys(labels).join(", ")}`, () => {
      const software = softwareOf({ ...UNKNOWN, labels });
      assert.equal(software?.title, title);
      checkCures(software, title, trust, accept);
      // The selector identifies a Service that has no labels.
      assert.equal(softwareOf({ ...UNKNOWN, selector: labels })?.title, title);
      for (const key of Object.keys(labels)) assert.equal(labelled(`x-${key}`, labels[key] ?? ""), undefined);
    });
  }

  test("every entry of the table has a test", () => {
    const titles = new Set([...BY_NAME, ...BY_LABEL].map(([title]) => title));
    assert.deepEqual(KNOWN_SOFTWARE.map(({ title }) => title).sort(), [...titles].sort());
  });

  test("F5's release `nginx-ingress` is not ingress-nginx, although the Services have the same name", () => {
    const service = {
      ...UNKNOWN,
      name: "nginx-ingress-controller",
      labels: { "app.kubernetes.io/name": "nginx-ingress", "app.kubernetes.io/instance": "nginx-ingress" },
    };
    assert.equal(softwareOf(service)?.title, "F5 NGINX Ingress Controller");
    assert.equal(softwareOf({ ...UNKNOWN, name: "nginx-ingress-controller" })?.title, "ingress-nginx");
  });

  for (const label of ["app.kubernetes.io/name", "app", "k8s-app", "istio"]) {
    test(`by ${label}, in the labels and the selector`, () => {
      assert.equal(labelled(label, "kong")?.title, "Kong");
      assert.equal(softwareOf({ ...UNKNOWN, selector: { [label]: "kong" } })?.title, "Kong");
    });
  }

  test("by its name, but by no other label", () => {
    assert.equal(softwareOf({ ...UNKNOWN, name: "kong" })?.title, "Kong");
    assert.equal(labelled("team", "kong"), undefined);
  });
});

test("an unknown ingress controller gets general advice", () => {
  assert.match(trustCure(undefined), /^configure the ingress controller to trust PROXY headers from the proxy pods'/);
  assert.equal(acceptCure(undefined), "configure the ingress controller to accept PROXY headers");
});

test("only some ingress controllers accept connections both with and without a header", () => {
  const ways = KNOWN_SOFTWARE.flatMap(optionalCures);
  assert.deepEqual(
    ways.map((way) => way.split(":")[0]),
    ["Traefik", "Envoy Gateway", "agentgateway"],
  );
  assert.match(ways[1] ?? "", /^Envoy Gateway: set `proxyProtocol: \{ optional: true \}` .* \(https:/);
  assert.deepEqual(optionalCures(undefined), []);
});
