import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { listenersOf } from "#lib/documents/listeners.ts";
import { COMPONENTS, configOf, host, NAMESPACE, named, type Rendered, relayed, render } from "./rendered.ts";

// Objects that the chart renders only if the values ask for them.

describe("what is off by default", () => {
  it("NetworkPolicies allow every port that the proxy listens on", () => {
    assert.ok(render().every(({ kind }) => kind !== "NetworkPolicy"));
    const values = { networkPolicy: { enabled: true }, config: { targets: [relayed, host("b", { port: 80 })] } };
    const objects = render(values);
    assert.deepEqual(
      objects.filter(({ kind }) => kind === "NetworkPolicy").map(({ metadata }) => metadata.name),
      [...COMPONENTS, "install-check", "test", "uninstall", "remains"].map((component) => `switchback-${component}`),
    );
    const { ingress } = named(objects, "NetworkPolicy", "switchback-proxy").spec;
    const isOpen = (port: number) =>
      ingress.some(({ ports, from }: Rendered) => {
        assert.equal(from, undefined, "from anywhere by default");
        return ports.some((range: Rendered) => range.port <= port && port <= (range.endPort ?? range.port));
      });
    const { targets, proxy } = configOf(objects);
    const bound = [...listenersOf(targets).map(({ listenPort }) => listenPort), proxy.healthPort];
    assert.deepEqual(bound.map(isOpen), [true, true, true]);
    assert.equal(isOpen(22), false);
  });

  it("NetworkPolicies allow connections to the API server only at the addresses of the values", () => {
    const apiServer = { cidrs: ["192.0.2.0/24"], ports: [6443] };
    const policy = named(
      render({ networkPolicy: { enabled: true, apiServer } }),
      "NetworkPolicy",
      "switchback-webhook",
    );
    assert.deepEqual(policy.spec.egress, [
      { ports: [{ protocol: "TCP", port: 6443 }], to: [{ ipBlock: { cidr: "192.0.2.0/24" } }] },
    ]);
  });

  it("a NetworkPolicy limits each component, also the agents, to the peers that it connects to", () => {
    const values = {
      networkPolicy: {
        enabled: true,
        apiServer: { cidrs: ["192.0.2.1/32"], ports: [6443] },
        dns: { cidrs: ["192.0.2.53/32"] },
        ingressControllers: [{ namespaceSelector: { matchLabels: { edge: "true" } } }],
      },
      agent: { enabled: true },
      config: { agent: { namespace: "their-own", healthPort: 8099 } },
    };
    const objects = render(values);
    const selector = (component: string) => ({
      matchLabels: { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": component },
    });
    const api = { ports: [{ protocol: "TCP", port: 6443 }], to: [{ ipBlock: { cidr: "192.0.2.1/32" } }] };
    const dnsPorts = ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 }));
    const dns = { ports: dnsPorts, to: [{ ipBlock: { cidr: "192.0.2.53/32" } }] };
    const any = [{ protocol: "TCP", port: 1, endPort: 65535 }];
    const health = (component: string, port: number) => ({
      ports: [{ protocol: "TCP", port }],
      to: [{ podSelector: selector(component) }],
    });
    const egress: Readonly<Record<string, object[]>> = {
      controller: [api, dns, health("proxy", 8082)],
      webhook: [api],
      proxy: [api, dns, { ports: any, to: values.networkPolicy.ingressControllers }],
      agent: [api],
    };
    for (const [component, expected] of Object.entries(egress)) {
      const { metadata, spec } = named(objects, "NetworkPolicy", `switchback-${component}`);
      assert.deepEqual(spec.egress, expected, component);
      assert.deepEqual([spec.podSelector, spec.policyTypes], [selector(component), ["Ingress", "Egress"]]);
      assert.equal(metadata.namespace, component === "agent" ? "their-own" : NAMESPACE);
    }
    const { spec } = named(objects, "NetworkPolicy", "switchback-agent");
    assert.deepEqual(spec.ingress, [{ ports: [{ protocol: "TCP", port: 8099 }] }]);
    const dnsServers = ["192.0.2.1", "192.0.2.1:5353", "[2001:db8::1]:5354", "[2001:db8::53]", "192.0.2.2:53"];
    const asking = render({ ...values, config: { policy: { dnsServers } } });
    const portsOf = (component: string): number[] =>
      named(asking, "NetworkPolicy", `switchback-${component}`).spec.egress[1].ports.map(({ port }: Rendered) => port);
    assert.deepEqual(portsOf("controller"), [53, 53, 5353, 5353, 5354, 5354]);
    assert.deepEqual(portsOf("proxy"), [53, 53]);
    const [, { ports: behindService }] = named(
      render({ ...values, networkPolicy: { enabled: true, dns: { ports: [53, 5353] } } }),
      "NetworkPolicy",
      "switchback-proxy",
    ).spec.egress;
    assert.deepEqual(
      behindService.map(({ port }: Rendered) => port),
      [53, 53, 5353, 5353],
    );
    const silent = render(values, ["--set", "config.policy.verifyDns=off"]);
    const withoutDns = [api, health("proxy", 8082)];
    assert.deepEqual(named(silent, "NetworkPolicy", "switchback-controller").spec.egress, withoutDns);
  });

  it("NetworkPolicies admit only the clients of the values, and the controller on the health ports", () => {
    const [webhook, health, proxy] = ["a", "b", "c"].map((name) => [{ namespaceSelector: { matchLabels: { name } } }]);
    const networkPolicy = { enabled: true, clients: { webhook, health, proxy } };
    const objects = render({ networkPolicy, agent: { enabled: true }, config: { targets: [relayed] } });
    const ingressOf = (component: string) =>
      named(objects, "NetworkPolicy", `switchback-${component}`).spec.ingress.map(({ ports, from }: Rendered) => [
        ports.map(({ port }: Rendered) => port),
        from,
      ]);
    const labels = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "controller" };
    const controllers = [{ podSelector: { matchLabels: labels } }];
    assert.deepEqual(ingressOf("controller"), [[[8080], health]]);
    assert.deepEqual(ingressOf("agent"), [[[8083], health]]);
    assert.deepEqual(ingressOf("webhook"), [
      [[8081], health],
      [[8443], webhook],
    ]);
    assert.deepEqual(ingressOf("proxy"), [
      [[8082], health],
      [[8082], controllers],
      [[15000, 9443], proxy],
    ]);
  });

  it("the pods of the hooks may connect only to the API server, by a policy that exists before they start", () => {
    const apiServer = { cidrs: ["192.0.2.1/32"], ports: [6443] };
    const objects = render({ networkPolicy: { enabled: true, apiServer } });
    for (const name of ["switchback-install-check", "switchback-uninstall", "switchback-remains"]) {
      const { metadata, spec } = named(objects, "NetworkPolicy", name);
      const job = named(objects, "Job", name);
      const hook = (object: Rendered) => object.metadata.annotations["helm.sh/hook"];
      const weight = (object: Rendered) => Number(object.metadata.annotations["helm.sh/hook-weight"]);
      assert.equal(hook({ metadata }), hook(job));
      assert.ok(weight({ metadata }) < weight(job));
      const { labels } = job.spec.template.metadata;
      for (const [label, value] of Object.entries(spec.podSelector.matchLabels)) assert.equal(labels[label], value);
      assert.deepEqual([spec.policyTypes, spec.ingress], [["Ingress", "Egress"], undefined]);
      assert.deepEqual(spec.egress, [
        { ports: [{ protocol: "TCP", port: 6443 }], to: [{ ipBlock: { cidr: "192.0.2.1/32" } }] },
      ]);
    }
  });

  it("ServiceMonitors scrape a port that their Service has", () => {
    assert.ok(render().every(({ kind }) => kind !== "ServiceMonitor"));
    const objects = render({ serviceMonitor: { enabled: true } });
    for (const component of COMPONENTS) {
      const name = `switchback-${component}`;
      const [{ port }] = named(objects, "ServiceMonitor", name).spec.endpoints;
      const service = named(objects, "Service", name);
      assert.ok(service.spec.ports.some((entry: Rendered) => entry.name === port && entry.targetPort === "health"));
    }
  });
});
