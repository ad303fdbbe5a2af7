import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { NAMESPACE, named, type Rendered, render, runHelm } from "#test/integration/rendered.ts";
import { OBJECTS } from "#test/published.ts";

// What the chart renders for the resolvers: nothing by default, two that can fail independently, and the right to
// read the map.

const IMAGE = `registry.example.com/coredns@sha256:${"0".repeat(64)}`;
const RESOLVERS = ["switchback-dns-a", "switchback-dns-b"];
const enabled = (more: object = {}, values: object = {}) =>
  render({ ...values, podDns: { enabled: true, image: IMAGE, ...more } });
const isOurs = ({ metadata }: Rendered) => metadata.labels["app.kubernetes.io/component"] === "dns";
const podOf = (objects: Rendered[], name = "switchback-dns-a") => named(objects, "Deployment", name).spec.template;

describe("the resolvers", () => {
  it("are off by default: only the policy that reserves their names is rendered", () => {
    assert.deepEqual(render().filter(isOurs), []);
    const others = render().filter(({ kind }) => kind !== "ValidatingAdmissionPolicy");
    assert.doesNotMatch(JSON.stringify(others), /switchback-dns/);
  });

  it("are two Deployments in each profile, each with its own Service and PodDisruptionBudget", () => {
    for (const profile of ["default", "small"]) {
      const objects = enabled({}, { profile }).filter(isOurs);
      const names = objects.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
      const twice = ["Deployment", "PodDisruptionBudget", "Service"].flatMap((kind) =>
        RESOLVERS.map((name) => `${kind} ${name}`),
      );
      const once = ["Role", "RoleBinding", "ServiceAccount"].map((kind) => `${kind} switchback-dns`);
      assert.deepEqual(names.toSorted(), [...twice, ...once].toSorted());
      for (const [index, name] of RESOLVERS.entries()) {
        const { matchLabels } = named(objects, "Deployment", name).spec.selector;
        assert.equal(matchLabels["switchback.dev/resolver"], "ab"[index]);
        assert.deepEqual(named(objects, "Service", name).spec.selector, matchLabels);
        assert.deepEqual(named(objects, "PodDisruptionBudget", name).spec.selector.matchLabels, matchLabels);
        const { labels } = podOf(objects, name).metadata;
        for (const [key, value] of Object.entries(matchLabels)) assert.equal(labels[key], value);
      }
    }
    assert.equal(named(enabled({ replicas: 1 }), "PodDisruptionBudget", "switchback-dns-a"), undefined);
  });

  it("prefer different nodes most; affinity and spread constraints in the values replace that", () => {
    for (const [index, name] of RESOLVERS.entries()) {
      const { affinity, topologySpreadConstraints } = podOf(enabled(), name).spec;
      const terms = affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution;
      assert.deepEqual(
        terms.map(({ weight, podAffinityTerm: { topologyKey, labelSelector } }: Rendered) => [
          weight,
          topologyKey.split("/")[1],
          labelSelector.matchLabels["switchback.dev/resolver"],
        ]),
        [
          [100, "hostname", "ba"[index]],
          [50, "zone", "ba"[index]],
          [30, "hostname", "ab"[index]],
          [10, "zone", "ab"[index]],
        ],
      );
      const { labels } = podOf(enabled(), name).metadata;
      const own = terms[2].podAffinityTerm.labelSelector.matchLabels;
      for (const [key, value] of Object.entries(own)) assert.equal(labels[key], value);
      assert.deepEqual(
        topologySpreadConstraints.map(({ topologyKey }: Rendered) => topologyKey),
        ["kubernetes.io/os"],
      );
    }
    const given = { affinity: { nodeAffinity: {} }, topologySpreadConstraints: [{ topologyKey: "rack" }] };
    const { affinity, topologySpreadConstraints } = podOf(enabled(given)).spec;
    assert.deepEqual({ affinity, topologySpreadConstraints }, given);
  });

  it("answer on port 53 of their Services, over UDP and TCP, through the port that CoreDNS binds", () => {
    const { spec } = named(enabled(), "Service", "switchback-dns-a");
    const { ports } = podOf(enabled({}, { config: { podDns: { port: 5353 } } })).spec.containers[0];
    const asked = spec.ports.filter(({ port }: Rendered) => port === 53);
    assert.deepEqual(
      asked.map(({ protocol, targetPort }: Rendered) => [protocol, targetPort]),
      [
        ["UDP", "dns"],
        ["TCP", "dns-tcp"],
      ],
    );
    const named53 = ports.filter(({ name }: Rendered) => /^dns/.test(name));
    assert.deepEqual(named53, [
      { name: "dns", containerPort: 5353, protocol: "UDP" },
      { name: "dns-tcp", containerPort: 5353 },
    ]);
  });

  it("have a sidecar that delays CoreDNS until the map is written", () => {
    const objects = enabled();
    const { initContainers, containers, volumes } = podOf(objects).spec;
    const [sidecar] = initContainers;
    assert.deepEqual([sidecar.restartPolicy, sidecar.startupProbe.httpGet.path], ["Always", "/readyz"]);
    assert.deepEqual(sidecar.command.slice(-3), ["dns", "--config", "/etc/switchback/config.yaml"]);
    const mountOf = ({ volumeMounts }: Rendered) => volumeMounts.find(({ name }: Rendered) => name === "files");
    assert.deepEqual(mountOf(sidecar), { name: "files", mountPath: "/run/switchback-dns" });
    assert.deepEqual(mountOf(containers[0]), { name: "files", mountPath: "/run/switchback-dns", readOnly: true });
    assert.deepEqual(containers[0].args, ["-conf", "/run/switchback-dns/Corefile"]);
    assert.equal(containers[0].image, IMAGE);
    assert.equal(volumes.find(({ name }: Rendered) => name === "files").emptyDir.medium, "Memory");
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
      settingsOf({}, { config: { podDns: { ttlSeconds: 9 } } }),
    ];
    for (const [changed = []] of changes) assert.notEqual(changed[0], a[0]);
  });

  it("are restricted: CoreDNS has only the capability that its binary asks for, and the sidecar has none", () => {
    const { spec } = podOf(enabled());
    assert.deepEqual(
      [spec.securityContext.runAsNonRoot, spec.securityContext.seccompProfile.type],
      [true, "RuntimeDefault"],
    );
    const capabilities = [...spec.initContainers, ...spec.containers].map((container: Rendered) => {
      const { securityContext } = container;
      assert.deepEqual(
        [securityContext.allowPrivilegeEscalation, securityContext.readOnlyRootFilesystem],
        [false, true],
      );
      return securityContext.capabilities;
    });
    assert.deepEqual(capabilities, [{ drop: ["ALL"] }, { drop: ["ALL"], add: ["NET_BIND_SERVICE"] }]);
    assert.deepEqual([spec.hostNetwork, spec.dnsPolicy], [undefined, undefined]);
  });

  it("may read the map, and nothing else", () => {
    const objects = enabled();
    const bindings = objects.filter(
      ({ kind, subjects }) =>
        /RoleBinding$/.test(kind) && subjects.some(({ name }: Rendered) => name === "switchback-dns"),
    );
    assert.deepEqual(
      bindings.map(({ kind, metadata, roleRef }) => [kind, metadata.namespace, roleRef.kind, roleRef.name]),
      [["RoleBinding", NAMESPACE, "Role", "switchback-dns"]],
    );
    const { rules } = named(objects, "Role", "switchback-dns");
    assert.deepEqual(rules, [
      { apiGroups: [""], resources: ["configmaps"], resourceNames: [OBJECTS.map], verbs: ["list", "watch"] },
    ]);
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
    const clients = [{ namespaceSelector: { matchLabels: { name: "shop" } } }];
    const objects = enabled({}, { networkPolicy: { enabled: true, clients: { dns: clients } } });
    const { ingress, egress } = named(objects, "NetworkPolicy", "switchback-dns").spec;
    const ports = ({ ports: all }: Rendered) => all.map(({ port }: Rendered) => port);
    assert.deepEqual(ingress.map(ports), [[8084], [1053, 1053], [1053, 1053], [9153], [8085, 8086]]);
    assert.deepEqual(ingress[1].from, clients);
    const peers = ingress[2].from.map(({ podSelector }: Rendered) => podSelector.matchLabels);
    assert.deepEqual(
      peers.map((labels: Rendered) => labels["app.kubernetes.io/component"]),
      ["webhook", "dns"],
    );
    const asked = [
      [443, 6443],
      [53, 53],
      [1053, 1053],
    ];
    assert.deepEqual(egress.map(ports), asked);
    const webhook = named(objects, "NetworkPolicy", "switchback-webhook").spec.egress;
    assert.deepEqual(webhook.map(ports), asked);
  });

  it("have the metrics of both containers scraped", () => {
    const objects = enabled({}, { serviceMonitor: { enabled: true } });
    const { endpoints } = named(objects, "ServiceMonitor", "switchback-dns").spec;
    assert.deepEqual(
      endpoints.map(({ port }: Rendered) => port),
      ["metrics", "coredns-metrics"],
    );
  });
});
