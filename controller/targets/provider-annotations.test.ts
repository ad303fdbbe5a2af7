import assert from "node:assert/strict";
import { test } from "node:test";
import { protocolOf } from "#test/fakes/protocol-of.ts";

const BETA = "service.beta.kubernetes.io/";
const FEATURES = "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features";
const ATTRIBUTES = `${BETA}aws-load-balancer-target-group-attributes`;

/** This fallback distinguishes a value without a meaning from a value that means `none`. */
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

/** UpCloud's configuration of a load balancer, with a frontend and a backend per port. `ports` is optional. */
function upcloud(
  versions: Readonly<Record<string, string>>,
  ports: Readonly<Record<string, number>> = { http: 80, https: 443 },
): string {
  const names = Object.keys(versions);
  return JSON.stringify({
    name: "nginx-ingress-loadbalancer",
    frontends: names.map((name) => ({ name, mode: "tcp", port: ports[name] })),
    backends: names.map((name) => ({ name, properties: { outbound_proxy_protocol: versions[name] } })),
  });
}

/** The meaning of each value of each provider's annotation, for port 443. */
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
  "oci-network-load-balancer.oraclecloud.com/is-ppv2-enabled": { true: "v2", false: "none", "": FALLBACK },
  [`${BETA}azure-pls-proxy-protocol`]: { true: "v2", false: FALLBACK },
  // https://github.com/linode/linode-cloud-controller-manager/blob/main/docs/configuration/annotations.md
  [`${BETA}linode-loadbalancer-port-443`]: {
    '{"protocol": "https", "tls-secret-name": "my-tls-secret", "proxy-protocol": "v2", "algorithm": "leastconn"}': "v2",
    '{"proxy-protocol": "v1"}': "v1",
    '{"proxy-protocol": "none"}': "none",
    '{"proxy-protocol": "v3"}': FALLBACK,
    '{"proxy-protocol": 2}': FALLBACK,
    '{"protocol": "https"}': FALLBACK,
    "{": FALLBACK,
    null: FALLBACK,
    "[]": FALLBACK,
  },
  [`${BETA}linode-loadbalancer-port-80`]: { '{"proxy-protocol": "v2"}': FALLBACK },
  // https://github.com/UpCloudLtd/uks-instructions/blob/main/ccm/README.md
  [`${BETA}upcloud-load-balancer-config`]: {
    [upcloud({ http: "v2", https: "v2" })]: "v2",
    [upcloud({ http: "v1", https: "v1" }, {})]: "v1",
    [upcloud({ http: "", https: "v2" })]: FALLBACK,
    [upcloud({ http: "v2", https: "" })]: FALLBACK,
    [upcloud({ http: "v2", https: "v1" }, {})]: FALLBACK,
    [upcloud({ http: "v2", https: "v9" })]: FALLBACK,
    '{"frontends": [{"name": "https", "mode": "tcp", "port": 443}]}': FALLBACK,
    '{"frontends": {"port": 443}, "backends": [null, 5, {"properties": null}]}': FALLBACK,
    "{": FALLBACK,
  },
  [`${BETA}osc-load-balancer-proxy-protocol`]: { "*": "v1", "443": FALLBACK },
  "lb.stackit.cloud/tcp-proxy-protocol": { true: "v2", "1": "v2", false: "none" },
  [`${BETA}ncloud-load-balancer-proxy-protocol`]: SWITCHED,
  // Values of Apache's controller, and of Leaseweb's list of ports.
  [`${BETA}cloudstack-load-balancer-proxy-protocol`]: {
    true: "v1",
    enabled: "v1",
    false: "none",
    "80, 443": "v1",
    "80": FALLBACK,
  },
};
for (const [key, values] of Object.entries(PROVIDERS)) {
  test(`${key}: each value has its meaning`, () => {
    const found = Object.keys(values).map((value) => [value, protocolOf({ [key]: value }, 443, FALLBACK)]);
    assert.deepEqual(Object.fromEntries(found), values);
    assert.equal(protocolOf({ [key]: 5 as never }, 443, FALLBACK), FALLBACK, "no text");
  });
}

test("AWS: a network load balancer, detected by the prefix of its type, sends version 2", () => {
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

test("AWS: the attribute alone identifies a network load balancer", () => {
  const annotations = { [`${BETA}aws-load-balancer-proxy-protocol`]: "*" };
  assert.equal(protocolOf({ ...annotations, [ATTRIBUTES]: "proxy_protocol_v2.enabled=true" }, 443, FALLBACK), "v2");
  assert.equal(protocolOf({ ...annotations, [ATTRIBUTES]: "proxy_protocol_v2.enabled=false" }, 443, FALLBACK), "v1");
});

test("STACKIT: with a filter, only the listed ports get a header, if it is on at all", () => {
  const key = "lb.stackit.cloud/tcp-proxy-protocol";
  const of = (on: string, ports: string) => protocolOf({ [key]: on, [`${key}-ports-filter`]: ports }, 443, FALLBACK);
  assert.deepEqual([of("1", "80,443"), of("true", "80"), of("false", "443")], ["v2", "none", "none"]);
});

test("Linode: the setting of a port overrides the setting of all ports", () => {
  const annotations = {
    [`${BETA}linode-loadbalancer-default-proxy-protocol`]: "v2",
    [`${BETA}linode-loadbalancer-port-443`]: '{"proxy-protocol": "none"}',
  };
  assert.deepEqual(
    [80, 443].map((port) => protocolOf(annotations, port, FALLBACK)),
    ["v2", "none"],
  );
});

test("our annotation overrides every provider's", () => {
  const hetzner = "load-balancer.hetzner.cloud/uses-proxyprotocol";
  const of = (annotations: Record<string, string>) => protocolOf(annotations, 443, FALLBACK);
  for (const own of ["v1", "v2", "none"])
    assert.equal(of({ "switchback.dev/proxy-protocol": own, [hetzner]: "true" }), own);
});

test("contradicting annotations of providers state nothing; other combinations do", () => {
  const hetzner = "load-balancer.hetzner.cloud/uses-proxyprotocol";
  const ovh = `${BETA}ovh-loadbalancer-proxy-protocol`;
  const of = (annotations: Record<string, string>, port = 443) => protocolOf(annotations, port, FALLBACK);
  assert.equal(of({ [ovh]: "v2", [hetzner]: "true" }), FALLBACK);
  assert.equal(of({ [ovh]: "v2", [hetzner]: "maybe" }), "v2");
  assert.equal(of({ [ovh]: "v1", [hetzner]: "true" }), "v1");
  const scaleway = {
    [`${BETA}scw-loadbalancer-proxy-protocol-v1`]: "80,443",
    [`${BETA}scw-loadbalancer-proxy-protocol-v2`]: "443,8443",
  };
  const found = [80, 443, 8443, 9443].map((port) => of(scaleway, port));
  assert.deepEqual(found, ["v1", FALLBACK, "v2", FALLBACK]);
});
