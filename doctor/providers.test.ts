import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { NGINX } from "#test/fakes/doctor-facts.ts";
import type { ServiceFacts } from "./facts.ts";
import { providerCures } from "./providers.ts";

function cures(annotation: string, change: Partial<ServiceFacts> = {}): string[] {
  return providerCures({ ...NGINX, annotations: { other: "x", [annotation]: "x", ...change.annotations }, ...change });
}

/** For each provider: how to recognize it, and the annotations in its cure, which its cloud controller reads. */
const PROVIDERS: readonly [title: string, prefix: string, ...annotations: string[]][] = [
  ["Hetzner Cloud", "load-balancer.hetzner.cloud/", `load-balancer.hetzner.cloud/hostname=HOSTNAME`],
  ["DigitalOcean", "service.beta.kubernetes.io/do-", `service.beta.kubernetes.io/do-loadbalancer-hostname=HOSTNAME`],
  ["Scaleway", "service.beta.kubernetes.io/scw-", "service.beta.kubernetes.io/scw-loadbalancer-ip-mode=Proxy"],
  [
    "Linode",
    "service.beta.kubernetes.io/linode-",
    "service.beta.kubernetes.io/linode-loadbalancer-hostname-only-ingress=true",
  ],
  ["Vultr", "service.beta.kubernetes.io/vultr-", `service.beta.kubernetes.io/vultr-loadbalancer-hostname=HOSTNAME`],
  ["cloudscale", "k8s.cloudscale.ch/", "k8s.cloudscale.ch/loadbalancer-ip-mode=Proxy"],
  ["Oracle Cloud", "oci.oraclecloud.com/", "oci.oraclecloud.com/ingress-ip-mode=Proxy"],
  ["Oracle Cloud", "service.beta.kubernetes.io/oci-", "oci.oraclecloud.com/ingress-ip-mode=Proxy"],
  ["Oracle Cloud", "oci-network-load-balancer.oraclecloud.com/", "oci.oraclecloud.com/ingress-ip-mode=Proxy"],
  [
    "CloudStack",
    "service.beta.kubernetes.io/cloudstack-",
    `service.beta.kubernetes.io/cloudstack-load-balancer-hostname=HOSTNAME`,
  ],
  ["OpenStack", "loadbalancer.openstack.org/", `loadbalancer.openstack.org/hostname=HOSTNAME`],
  ["OpenStack", "service.beta.kubernetes.io/ovh-", `loadbalancer.openstack.org/hostname=HOSTNAME`],
];

describe("the provider's own fix", () => {
  for (const [title, prefix, ...annotations] of PROVIDERS) {
    test(`is that of ${title} for a Service with ${prefix}`, () => {
      const [own = "", ...more] = cures(`${prefix}x`);
      assert.deepEqual(more, []);
      assert.ok(own.startsWith(`${title}: `), own);
      for (const annotation of annotations)
        assert.ok(own.includes(`kubectl -n ingress-nginx annotate service ${NGINX.name} ${annotation}`), own);
    });
  }

  test("is not suggested if the provider is unknown", () => {
    assert.deepEqual(cures("example.com/x"), []);
  });

  test("is not suggested for an address that MetalLB or Cilium announces, or that is an external one", () => {
    const cloud = "k8s.cloudscale.ch/x";
    for (const prefix of ["metallb.io", "metallb.universe.tf"])
      assert.deepEqual(cures(cloud, { annotations: { [cloud]: "x", [`${prefix}/ip-allocated-from-pool`]: "p" } }), []);
    assert.deepEqual(cures(cloud, { conditions: ["cilium.io/IPAMRequestSatisfied"] }), []);
    const external = { ip: "192.0.2.1", external: true } as const;
    assert.deepEqual(cures(cloud, { entries: [external] }), []);
    assert.equal(cures(cloud, { entries: [external, ...NGINX.entries], conditions: ["other"] }).length, 1);
  });
});
