import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { named, type Rendered, render, rulesOf, runHelm } from "#test/integration/rendered.ts";

// What the chart renders for the resolvers: two that can fail independently. Their rights are in
// test/integration/chart-rights.test.ts.

const IMAGE = `registry.example.com/coredns@sha256:${"0".repeat(64)}`;
const RESOLVERS = ["switchback-dns-a", "switchback-dns-b"];
const enabled = (more: object = {}, values: object = {}) =>
  render({ ...values, podDns: { enabled: true, image: IMAGE, ...more } });
const isOurs = ({ metadata }: Rendered) => metadata.labels["app.kubernetes.io/component"] === "dns";
const podOf = (objects: Rendered[], name = "switchback-dns-a") => named(objects, "Deployment", name).spec.template;

describe("the resolvers", () => {
  it("are two Deployments in each profile, each with its own Service and PodDisruptionBudget", () => {
    for (const profile of ["default", "small"]) {
      const objects = enabled({}, { profile }).filter(isOurs);
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      const twice = ["Deployment", "PodDisruptionBudget", "Service"].flatMap((kind) =>
        RESOLVERS.map((name) => `${kind} ${name}`),
      );
      const once = ["Role", "RoleBinding", "ServiceAccount"].map((kind) => `${kind} switchback-dns`);
      assert.deepEqual(names.toSorted(), [...twice, ...once].toSorted());
    }
    assert.equal(named(enabled({ replicas: 1 }), "PodDisruptionBudget", "switchback-dns-a"), undefined);
  });

  it("prefer different nodes most; affinity and spread constraints in the values replace that", () => {
    const termsOf = (name: string) =>
      podOf(enabled(), name).spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution.map(
        ({ weight, podAffinityTerm: { topologyKey, labelSelector } }: Rendered) =>
          `${weight} ${topologyKey.split("/")[1]} ${labelSelector.matchLabels["switchback.dev/resolver"]}`,
      );
    assert.deepEqual(termsOf("switchback-dns-a"), ["100 hostname b", "50 zone b", "30 hostname a", "10 zone a"]);
    assert.deepEqual(termsOf("switchback-dns-b"), ["100 hostname a", "50 zone a", "30 hostname b", "10 zone b"]);
    const given = { affinity: { nodeAffinity: {} }, topologySpreadConstraints: [{ topologyKey: "rack" }] };
    const { affinity, topologySpreadConstraints } = podOf(enabled(given)).spec;
    assert.deepEqual({ affinity, topologySpreadConstraints }, given);
  });

  it("are rolled one after the other: the second waits for the first's revision of images and settings", () => {
    const settingsOf = (more: object, values: object = {}) =>
      RESOLVERS.map((name) => {
        const { env } = podOf(enabled(more, values), name).spec.initContainers[0];
        const value = (of: string) => env.find((each: Rendered) => each.name === `SWITCHBACK_POD_DNS_${of}`)?.value;
        return [value("REVISION"), value("WAIT_FOR")];
      });
    const [a = [], b = []] = settingsOf({});
    assert.deepEqual([a[0], a[1], b[1]], [b[0], undefined, "switchback-dns-a"]);
    assert.match(a[0], /^[0-9a-f]{10}$/);
    assert.deepEqual(settingsOf({ remove: true })[0], a);
    const changes = [
      settingsOf({ image: `${IMAGE.slice(0, -1)}1` }),
      settingsOf({}, { image: { tag: "other" } }),
      settingsOf({}, { config: { podDns: { searches: ["a.test"] } } }),
    ];
    for (const [changed = []] of changes) assert.notEqual(changed[0], a[0]);
  });

  it("need an image and their own account", () => {
    const refused = (podDns: object) => runHelm({ podDns: { enabled: true, image: IMAGE, ...podDns } }).stderr;
    assert.match(refused({ image: "" }), /podDns\.image: required with podDns\.enabled: an image of CoreDNS 1\.14\.5/);
    assert.match(
      refused({ serviceAccount: { name: "switchback-webhook" } }),
      /each component needs an account of its own/,
    );
  });

  it("have a NetworkPolicy that allows the values' clients, the webhook, each other, API server and DNS", () => {
    const clients = { dns: [{ namespaceSelector: { matchLabels: { name: "shop" } } }] };
    const objects = enabled({}, { networkPolicy: { enabled: true, clients } });
    const egress = ["443, 6443 to any", "UDP 53, 53 to any", "UDP 1053, 1053 to dns"];
    const dns = ["UDP 1053, 1053 from shop", "UDP 1053, 1053 from webhook, dns"];
    const ingress = ["8084 from any", ...dns, "9153 from any", "8085, 8086 from any"];
    assert.deepEqual(rulesOf(objects, "dns"), [...ingress, ...egress]);
    assert.deepEqual(rulesOf(objects, "webhook").slice(2), egress);
  });
});
