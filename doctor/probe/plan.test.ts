import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { front, install, nginx, services } from "#test/fakes/doctor-changes.ts";
import {
  BALANCER_IP,
  FORBIDDEN,
  FRONT,
  FRONT_IP,
  HEALTHY,
  NAME,
  NGINX,
  NOT_INSTALLED,
  UPSTREAM_IP,
} from "#test/fakes/doctor-facts.ts";
import type { ClusterFacts, ServicePort } from "../facts.ts";
import { known } from "../known.ts";
import { planProbe } from "./plan.ts";

const SERVICE = "ingress-nginx/ingress-nginx-controller";
const UNSERVED = "switchback-doctor.invalid";
const plan = (change: Partial<ClusterFacts>) => planProbe({ ...HEALTHY, ...change });
const port = (number: number, name = "", appProtocol = ""): ServicePort => {
  return { name, port: number, targetPort: "", appProtocol };
};
/** Ingresses at the load balancer with these hosts, and no map. */
const served = (hosts: readonly string[]): Partial<ClusterFacts> => {
  const route = { kind: "Ingress", namespace: "shop", name: "shop", className: undefined } as const;
  return { ingresses: known([{ ...route, addresses: [BALANCER_IP], hosts }]), ...install({ map: known(undefined) }) };
};

test("each port is dialled with and without a header, at the load balancer, and through the proxy", () => {
  const of = (servicePort: number, speaks: "http" | "tls", name: string) => {
    const dial = (via: string, address: string, header: string) => {
      return { service: SERVICE, servicePort, speaks, name, via, address, port: servicePort, header };
    };
    return [
      dial("service", UPSTREAM_IP, "none"),
      dial("service", UPSTREAM_IP, "v1"),
      dial("service", UPSTREAM_IP, "v2"),
      dial("balancer", BALANCER_IP, "none"),
      dial("balancer", BALANCER_IP, "v1"),
      dial("front", FRONT_IP, "none"),
    ];
  };
  const own = [BALANCER_IP];
  assert.deepEqual(plan({}), { dials: [...of(80, "http", UNSERVED), ...of(443, "tls", NAME)], names: [NAME], own });
});

describe("a dial is left out", () => {
  const routes = (change: Partial<ClusterFacts>) => [...new Set(plan(change).dials.map(({ via }) => via))];
  const [all, noFront] = [
    ["service", "balancer", "front"],
    ["service", "balancer"],
  ];

  test("where there is no address for it", () => {
    assert.deepEqual(routes({}), all);
    assert.deepEqual(routes(nginx({ clusterIPs: [] })), ["balancer", "front"]);
    assert.deepEqual(routes(nginx({ entries: [] })), ["service", "front"]);
    assert.deepEqual(routes(front({ clusterIPs: [] })), noFront);
    assert.deepEqual(routes(front({ namespace: "other" })), noFront);
  });

  test("through the proxy, if there is no target, relay or front Service", () => {
    assert.deepEqual(routes(NOT_INSTALLED), noFront);
    assert.deepEqual(routes(install({ targets: known([]) })), noFront);
    const { config } = HEALTHY.install;
    assert.ok(config.known && config.value !== undefined);
    const targets = config.value.targets.map((target) => ({ ...target, clusterIPs: [FRONT_IP] }));
    assert.deepEqual(routes(install({ config: known({ ...config.value, targets }) })), noFront);
  });

  test("anywhere, where Services cannot be read", () => {
    assert.deepEqual(plan({ services: FORBIDDEN }), { dials: [], names: [], own: [] });
  });
});

test("the front Service is called at its own port", () => {
  const targets = install({
    targets: known([
      {
        name: "ingress-nginx",
        upstream: "ingress-nginx-controller.ingress-nginx.svc",
        ports: [{ port: 8000, listenPort: 15_000, upstreamPort: 80, protocol: "v1" }],
        clusterIPs: [FRONT_IP],
      },
    ]),
  });
  const { dials } = plan({ ...targets, ...services(NGINX, FRONT) });
  assert.deepEqual(
    dials.filter(({ via }) => via === "front").map((dial) => [dial.servicePort, dial.address, dial.port]),
    [[80, FRONT_IP, 8000]],
  );
});

describe("a port is spoken to by its number, its name or its appProtocol:", () => {
  for (const [what, one, speaks] of [
    ["443", port(443), "tls"],
    ["8443", port(8443), "tls"],
    ["80", port(80), "http"],
    ["8080", port(8080), "http"],
    ["a name", port(1, "HTTPS"), "tls"],
    ["a name of Traefik's", port(1, "websecure"), "tls"],
    ["a name in capitals", port(1, "tls-Passthrough"), "tls"],
    ["a plain name", port(1, "web"), "http"],
    ["a plain name in capitals", port(1, "HTTP2"), "http"],
    ["a protocol", port(1, "a", "https"), "tls"],
    ["a plain protocol", port(1, "a", "kubernetes.io/http"), "http"],
    ["its number before a plain name", port(443, "web"), "tls"],
    ["a name before its number", port(80, "https"), "tls"],
    ["none of them", port(81, "admin"), undefined],
    ["an internal port", port(9443, "metrics"), undefined],
  ] as const) {
    test(what, () => {
      const { dials } = plan(nginx({ ports: [one] }));
      assert.deepEqual([...new Set(dials.map((dial) => dial.speaks))], speaks === undefined ? [] : [speaks]);
    });
  }
});

describe("the names to look up", () => {
  const hosts = Array.from({ length: 21 }, (_, index) => `${String(index).padStart(2, "0")}.example.com`);

  test("are at most 20 of a load balancer, and its hostnames", () => {
    const found = plan({
      ...nginx({ entries: [{ ip: BALANCER_IP }, { hostname: "lb.example.com" }] }),
      ...served(hosts),
    });
    assert.deepEqual(found.names, [...hosts.slice(0, 20), "lb.example.com"]);
  });

  test("are at most 200 of all, each once", () => {
    const many = Array.from({ length: 11 }, (_, index) => {
      const entries = [{ ip: BALANCER_IP }, { hostname: `lb-${index}.example.com` }];
      return { ...NGINX, name: `edge-${String(index).padStart(2, "0")}`, entries };
    });
    const { names } = planProbe({ ...NOT_INSTALLED, ...served(hosts), ...services(...many, NGINX) });
    assert.deepEqual(names, [...hosts.slice(0, 20), ...many.map((_, index) => `lb-${index}.example.com`)]);
    const entries = [{ ip: BALANCER_IP }, ...Array.from({ length: 199 }, (_, index) => ({ hostname: `h${index}` }))];
    const [first] = hosts;
    const all = planProbe({ ...NOT_INSTALLED, ...served(hosts.slice(0, 2)), ...services({ ...NGINX, entries }) }).names;
    assert.deepEqual([all.length, all[0], all.at(-1)], [200, first, "h197"]);
  });

  test("the first is the server's name of a TLS handshake; without one it is a name that cannot exist", () => {
    const name = (change: Partial<ClusterFacts>) => plan(change).dials.find(({ speaks }) => speaks === "tls")?.name;
    assert.deepEqual([name(served(hosts)), name(served([]))], [hosts[0], UNSERVED]);
  });
});
