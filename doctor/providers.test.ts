import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { FORBIDDEN, HEALTHY, NGINX } from "#test/fakes/doctor-facts.ts";
import { type Fact, known } from "./fact.ts";
import type { ClusterFacts } from "./facts.ts";
import { providerCures } from "./providers.ts";

const GENERAL = /^have the provider's controller set `ipMode: Proxy` in the Service's status \(Kubernetes 1\.30/;
const HOSTNAME = "<hostname that resolves to the load balancer>";

function cures(annotation: string | undefined, providerIds: Fact<readonly string[]> = known([])): string[] {
  const facts: ClusterFacts = { ...HEALTHY, providerIds };
  const annotations = annotation === undefined ? {} : { other: "x", [annotation]: "x" };
  return providerCures({ ...NGINX, annotations }, facts);
}

/** For each provider: how to recognize it, and the annotations in its cure, which its cloud controller reads. */
const PROVIDERS: readonly [title: string, prefix: string, nodes: string, ...annotations: string[]][] = [
  ["Hetzner Cloud", "load-balancer.hetzner.cloud/", "hcloud://", `load-balancer.hetzner.cloud/hostname: ${HOSTNAME}`],
  [
    "DigitalOcean",
    "service.beta.kubernetes.io/do-",
    "digitalocean://",
    `service.beta.kubernetes.io/do-loadbalancer-hostname: ${HOSTNAME}`,
  ],
  [
    "Scaleway",
    "service.beta.kubernetes.io/scw-",
    "scaleway://",
    'service.beta.kubernetes.io/scw-loadbalancer-use-hostname: "true"',
  ],
  [
    "Linode",
    "service.beta.kubernetes.io/linode-",
    "linode://",
    'service.beta.kubernetes.io/linode-loadbalancer-hostname-only-ingress: "true"',
  ],
  [
    "Vultr",
    "service.beta.kubernetes.io/vultr-",
    "vultr://",
    `service.beta.kubernetes.io/vultr-loadbalancer-hostname: ${HOSTNAME}`,
  ],
  [
    "cloudscale",
    "k8s.cloudscale.ch/",
    "cloudscale://",
    "k8s.cloudscale.ch/loadbalancer-ip-mode: Proxy",
    `k8s.cloudscale.ch/loadbalancer-force-hostname: ${HOSTNAME}`,
  ],
  ["Oracle Cloud", "oci.oraclecloud.com/", "ocid1.", "oci.oraclecloud.com/ingress-ip-mode: Proxy"],
  [
    "CloudStack",
    "service.beta.kubernetes.io/cloudstack-",
    "cloudstack://",
    `service.beta.kubernetes.io/cloudstack-load-balancer-hostname: ${HOSTNAME}`,
  ],
  ["OpenStack", "loadbalancer.openstack.org/", "openstack://", `loadbalancer.openstack.org/hostname: ${HOSTNAME}`],
];

describe("the provider's own fix comes first", () => {
  for (const [title, prefix, nodes, ...annotations] of PROVIDERS) {
    test(`${title} is recognized by the Service's annotations or by the nodes`, () => {
      for (const found of [cures(`${prefix}x`), cures(undefined, known(["other://1", `${nodes}1`]))]) {
        const [own = "", general = "", ...more] = found;
        assert.deepEqual(more, []);
        assert.ok(own.startsWith(`${title}: `), own);
        for (const annotation of annotations) assert.ok(own.includes(`\`${annotation}\``), own);
        assert.match(general, GENERAL);
      }
    });
  }

  test("the annotations take precedence over the nodes", () => {
    assert.match(
      cures("k8s.cloudscale.ch/x", known(["hcloud://1"]))[0] ?? "",
      /^cloudscale: annotate the Service with /,
    );
    assert.match(cures("k8s.cloudscale.ch/x", FORBIDDEN)[0] ?? "", /^cloudscale: /);
  });

  test("an unknown provider gets only the general fix", () => {
    for (const found of [
      cures(undefined),
      cures("example.com/x", known(["x-hcloud://1"])),
      cures(undefined, FORBIDDEN),
    ]) {
      assert.equal(found.length, 1);
      assert.match(found[0] ?? "", GENERAL);
    }
  });
});
