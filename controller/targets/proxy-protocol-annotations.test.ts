import assert from "node:assert/strict";
import { test } from "node:test";
import { protocolOf } from "#test/fakes/protocol-of.ts";
import type { Protocol } from "./proxy-protocol-annotations.ts";

const BETA = "service.beta.kubernetes.io/";
const OWN = "switchback.dev/proxy-protocol";

const CASES: ReadonlyArray<readonly [what: string, annotations: Record<string, string>, expected: Protocol]> = [
  ["none at all: the fallback", {}, "none"],
  ["ours", { [OWN]: "v2" }, "v2"],
  ["ours before a provider's", { [OWN]: "none", "load-balancer.hetzner.cloud/uses-proxyprotocol": "true" }, "none"],
  ["AWS, a classic load balancer", { [`${BETA}aws-load-balancer-proxy-protocol`]: "*" }, "v1"],
  [
    "AWS, a network load balancer",
    { [`${BETA}aws-load-balancer-proxy-protocol`]: "*", [`${BETA}aws-load-balancer-type`]: "nlb-ip" },
    "v2",
  ],
  [
    "AWS, the load balancer controller's attributes",
    {
      [`${BETA}aws-load-balancer-target-group-attributes`]:
        "preserve_client_ip.enabled=true,proxy_protocol_v2.enabled=true",
    },
    "v2",
  ],
  ["Hetzner", { "load-balancer.hetzner.cloud/uses-proxyprotocol": "true" }, "v1"],
  ["Hetzner, off", { "load-balancer.hetzner.cloud/uses-proxyprotocol": "false" }, "none"],
  ["DigitalOcean", { [`${BETA}do-loadbalancer-enable-proxy-protocol`]: "true" }, "v1"],
  ["Scaleway", { [`${BETA}scw-loadbalancer-proxy-protocol-v2`]: "true" }, "v2"],
  ["Scaleway, this port among others", { [`${BETA}scw-loadbalancer-proxy-protocol-v2`]: "80, 443" }, "v2"],
  ["Scaleway, other ports only", { [`${BETA}scw-loadbalancer-proxy-protocol-v2`]: "80,8443" }, "none"],
  ["OpenStack", { "loadbalancer.openstack.org/proxy-protocol": "true" }, "v1"],
  ["OpenStack, by version", { "loadbalancer.openstack.org/proxy-protocol": "v2" }, "v2"],
  ["OVH, v2 with TLVs", { [`${BETA}ovh-loadbalancer-proxy-protocol`]: "v2-ssl-cn" }, "v2"],
  ["Linode", { [`${BETA}linode-loadbalancer-proxy-protocol`]: "v2" }, "v2"],
  ["Vultr", { [`${BETA}vultr-loadbalancer-proxy-protocol`]: "true" }, "v1"],
  ["IBM", { "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features": "proxy-protocol" }, "v1"],
  [
    "IBM, another feature",
    { "service.kubernetes.io/ibm-load-balancer-cloud-provider-enable-features": "ipvs" },
    "none",
  ],
  ["cloudscale", { "k8s.cloudscale.ch/loadbalancer-pool-protocol": "proxyv2" }, "v2"],
  ["Civo", { "kubernetes.civo.com/loadbalancer-enable-proxy-protocol": "send-proxy-v2" }, "v2"],
  ["Oracle", { [`${BETA}oci-load-balancer-connection-proxy-protocol-version`]: "2" }, "v2"],
  ["Outscale", { [`${BETA}osc-load-balancer-proxy-protocol`]: "*" }, "v1"],
  ["Outscale, a list of node ports", { [`${BETA}osc-load-balancer-proxy-protocol`]: "443" }, "none"],
  ["STACKIT", { "lb.stackit.cloud/tcp-proxy-protocol": "true" }, "v2"],
  ["STACKIT, off", { "lb.stackit.cloud/tcp-proxy-protocol": "false" }, "none"],
  [
    "STACKIT, this port among others",
    { "lb.stackit.cloud/tcp-proxy-protocol": "1", "lb.stackit.cloud/tcp-proxy-protocol-ports-filter": "80,443" },
    "v2",
  ],
  [
    "STACKIT, other ports only",
    { "lb.stackit.cloud/tcp-proxy-protocol": "true", "lb.stackit.cloud/tcp-proxy-protocol-ports-filter": "80" },
    "none",
  ],
  ["Naver Cloud", { [`${BETA}ncloud-load-balancer-proxy-protocol`]: "true" }, "v1"],
  [
    "a provider's with a value that means nothing here",
    { [`${BETA}oci-load-balancer-connection-proxy-protocol-version`]: "constructor" },
    "none",
  ],
];
for (const [what, annotations, expected] of CASES) {
  test(`the protocol on 443: ${what}`, () => assert.equal(protocolOf(annotations, 443, "none"), expected));
}

test("without annotations the fallback applies", () => {
  for (const fallback of ["v1", "v2", "none"] as const) assert.equal(protocolOf(undefined, 80, fallback), fallback);
});

test("an invalid value of the switchback.dev annotation yields a sanitized reason with the accepted values", () => {
  assert.deepEqual(protocolOf({ [OWN]: "v3\u001b" }, 80, "v1"), {
    code: "annotation-invalid",
    text: 'switchback.dev/proxy-protocol is "v3\\u001b"; accepted are v1, v2, none',
  });
});
