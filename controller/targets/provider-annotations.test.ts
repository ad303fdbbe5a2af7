import assert from "node:assert/strict";
import { test } from "node:test";
import { protocolOf } from "./proxy-protocol-annotations.ts";

const BETA = "service.beta.kubernetes.io/";
const FEATURES = "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features";
const ATTRIBUTES = `${BETA}aws-load-balancer-target-group-attributes`;

/** With this fallback a value that means nothing is distinguished from one that says `none`. */
const FALLBACK = "fallback" as "v1";
const SWITCHED = { true: "v1", false: "none", yes: FALLBACK, "": FALLBACK };
const VERSIONED = {
  true: "v1",
  false: "none",
  none: "none",
  v1: "v1",
  v2: "v2",
  "v2-ssl": "v2",
  v10: FALLBACK,
  "ssl-v2": FALLBACK,
  "": FALLBACK,
};

/** What each value of each provider's annotation says about port 443. */
const PROVIDERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  [`${BETA}aws-load-balancer-proxy-protocol`]: { "*": "v1", true: FALLBACK, "**": FALLBACK },
  [ATTRIBUTES]: {
    "proxy_protocol_v2.enabled=true": "v2",
    "a=b, proxy_protocol_v2.enabled=true ,c=d": "v2",
    "proxy_protocol_v2.enabled=false": FALLBACK,
    "x.proxy_protocol_v2.enabled=true": FALLBACK,
    "proxy_protocol_v2.enabled=truely": FALLBACK,
  },
  "load-balancer.hetzner.cloud/uses-proxyprotocol": SWITCHED,
  [`${BETA}do-loadbalancer-enable-proxy-protocol`]: SWITCHED,
  [`${BETA}scw-loadbalancer-proxy-protocol-v2`]: {
    true: "v2",
    "*": "v2",
    false: FALLBACK,
    "443": "v2",
    "80, 443 ": "v2",
    "4430,80": FALLBACK,
  },
  [`${BETA}scw-loadbalancer-proxy-protocol-v1`]: {
    true: "v1",
    "*": "v1",
    false: FALLBACK,
    "443": "v1",
    "80": FALLBACK,
  },
  "loadbalancer.openstack.org/proxy-protocol": VERSIONED,
  [`${BETA}ovh-loadbalancer-proxy-protocol`]: VERSIONED,
  [`${BETA}linode-loadbalancer-proxy-protocol`]: VERSIONED,
  [`${BETA}linode-loadbalancer-default-proxy-protocol`]: VERSIONED,
  [`${BETA}vultr-loadbalancer-proxy-protocol`]: SWITCHED,
  [FEATURES]: {
    "proxy-protocol": "v1",
    "ipvs, proxy-protocol ,x": "v1",
    "no-proxy-protocol": FALLBACK,
    "proxy-protocols": FALLBACK,
  },
  "k8s.cloudscale.ch/loadbalancer-pool-protocol": { proxy: "v1", proxyv2: "v2", tcp: "none", udp: FALLBACK },
  "kubernetes.civo.com/loadbalancer-enable-proxy-protocol": {
    "send-proxy": "v1",
    "send-proxy-v2": "v2",
    true: FALLBACK,
    toString: FALLBACK,
  },
  [`${BETA}oci-load-balancer-connection-proxy-protocol-version`]: { "1": "v1", "2": "v2", "3": FALLBACK },
};
for (const [key, values] of Object.entries(PROVIDERS)) {
  test(`${key}: each value`, () => {
    const found = Object.keys(values).map((value) => [value, protocolOf({ [key]: value }, 443, FALLBACK)]);
    assert.deepEqual(Object.fromEntries(found), values);
    assert.equal(protocolOf({ [key]: 5 as never }, 443, FALLBACK), FALLBACK, "no text");
  });
}

test("AWS: a network load balancer sends version 2, by the beginning of its type", () => {
  const of = (type: string) =>
    protocolOf(
      { [`${BETA}aws-load-balancer-proxy-protocol`]: "*", [`${BETA}aws-load-balancer-type`]: type },
      443,
      FALLBACK,
    );
  assert.deepEqual(["nlb", "nlb-ip", "external", "classic", "my-nlb", ""].map(of), [
    "v2",
    "v2",
    "v2",
    "v1",
    "v1",
    "v1",
  ]);
});

test("the first provider's annotation that says something counts; ours comes before all, and is read exactly", () => {
  const hetzner = "load-balancer.hetzner.cloud/uses-proxyprotocol";
  const ovh = `${BETA}ovh-loadbalancer-proxy-protocol`;
  const of = (annotations: Record<string, string>) => protocolOf(annotations, 443, FALLBACK);
  assert.equal(of({ [ovh]: "v2", [hetzner]: "true" }), "v1");
  assert.equal(of({ [ovh]: "v2", [hetzner]: "maybe" }), "v2");
  for (const own of ["v1", "v2", "none"])
    assert.equal(of({ "switchback.dev/proxy-protocol": own, [hetzner]: "true" }), own);
  assert.deepEqual(of({ "switchback.dev/proxy-protocol": "", [hetzner]: "true" }), {
    code: "annotation-invalid",
    text: 'switchback.dev/proxy-protocol is ""; accepted are v1, v2, none',
  });
});
