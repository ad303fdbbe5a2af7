import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NGINX } from "../test/fakes/doctor-facts.ts";
import { acceptCure, softwareOf, trustCure } from "./software.ts";

const UNKNOWN = { ...NGINX, name: "edge" };
const labelled = (label: string, value: string) => softwareOf({ ...UNKNOWN, labels: { [label]: value } });

/** The values that charts and operators set, and how the ingress controller is made to trust and accept headers. */
const SOFTWARE: readonly [title: string, values: readonly string[], trust: RegExp, accept: RegExp][] = [
  [
    "IBM Cloud's ALB",
    ["public-crbpq2cuoa00kl6prv7h60-alb1", "private-cr1-alb23"],
    /proxy-protocol enable --cluster CLUSTER --cidr/,
    /proxy-protocol enable --cluster CLUSTER`$/,
  ],
  [
    "ingress-nginx",
    ["ingress-nginx", "rke2-ingress-nginx", "nginx-ingress-controller"],
    /`proxy-real-ip-cidr`/,
    /`use-proxy-protocol: "true"`/,
  ],
  ["Traefik", ["traefik"], /add .* to `entryPoints\.<name>\.proxyProtocol\.trustedIPs`/, /set `entryPoints\.<name>/],
  [
    "HAProxy",
    ["haproxy-ingress", "kubernetes-ingress", "haproxy-ingress-controller"],
    /add .* to `proxy-protocol`/,
    /set `proxy-protocol` .* or `use-proxy-protocol`/,
  ],
  ["Contour", ["contour"], /once `--use-proxy-protocol` is set/, /start Contour with `--use-proxy-protocol`/],
  ["Envoy Gateway", ["envoy"], /once a ClientTrafficPolicy/, /`enableProxyProtocol: true`/],
  [
    "Istio's ingress gateway",
    ["istio-ingressgateway", "istio-ingress"],
    /once the gateway's `proxyProtocol` is set/,
    /`gatewayTopology: \{ proxyProtocol: \{\} \}`/,
  ],
  ["Kong", ["kong"], /`KONG_TRUSTED_IPS`/, /`KONG_PROXY_LISTEN`.*`KONG_REAL_IP_HEADER=proxy_protocol`/],
];

describe("an ingress controller is known by its labels", () => {
  for (const [title, values, trust, accept] of SOFTWARE) {
    test(title, () => {
      for (const value of values) {
        assert.equal(labelled("app", value)?.title, title);
        assert.equal(labelled("app", `x${value}`), undefined);
        assert.equal(labelled("app", `${value}x`), undefined);
      }
      const software = labelled("app", values[0] ?? "");
      assert.ok(trustCure(software).startsWith(`${title}: `) && acceptCure(software).startsWith(`${title}: `));
      assert.match(trustCure(software), trust);
      assert.match(acceptCure(software), accept);
    });
  }

  for (const label of ["app.kubernetes.io/name", "app", "k8s-app", "istio"]) {
    test(`by ${label}, in its labels and its selector`, () => {
      assert.equal(labelled(label, "kong")?.title, "Kong");
      assert.equal(softwareOf({ ...UNKNOWN, selector: { [label]: "kong" } })?.title, "Kong");
    });
  }

  test("or by its name, but by no other label", () => {
    assert.equal(softwareOf({ ...UNKNOWN, name: "kong" })?.title, "Kong");
    assert.equal(labelled("team", "kong"), undefined);
  });
});

test("for an unknown ingress controller the advice is general", () => {
  assert.match(trustCure(undefined), /^configure the ingress controller to trust PROXY headers from the proxy pods'/);
  assert.equal(acceptCure(undefined), "configure the ingress controller to accept PROXY headers");
});
