import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { install, nginx, relayed, services } from "#test/fakes/doctor-changes.ts";
import {
  BALANCER_IP,
  FORBIDDEN,
  FRONT_IP,
  HEALTHY,
  NAME,
  NGINX,
  NOT_INSTALLED,
  UPSTREAM_IP,
} from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import type { ClusterFacts, ServicePort } from "../facts.ts";
import { planProbe } from "./plan.ts";

const SERVICE = "ingress-nginx/ingress-nginx-controller";
const UNSERVED = "switchback-doctor.invalid";
const plan = (change: Partial<ClusterFacts>) => planProbe({ ...HEALTHY, ...change }).plan;
const port = (number: number, name = "", appProtocol = ""): ServicePort => {
  return { name, port: number, appProtocol };
};
/** These names lead to the load balancer. */
const served = (names: readonly string[]): Partial<ClusterFacts> => ({
  names: known({ names: names.map((name) => ({ name, service: SERVICE })), unread: [] }),
});

test("each port is dialled with and without a header at Service and load balancer, and through the proxy", () => {
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

test("a load balancer is dialled at an address that kube-proxy short-circuits", () => {
  const dialled = (clusterIPs: string[]) => {
    const { dials } = plan(nginx({ clusterIPs, entries: [{ ip: "2001:db8::80" }, { ip: BALANCER_IP }] }));
    return dials.find(({ via }) => via === "balancer")?.address;
  };
  assert.equal(dialled([UPSTREAM_IP]), BALANCER_IP);
  assert.equal(dialled(["2001:db8::9", UPSTREAM_IP]), "2001:db8::80");
});

describe("a dial is left out", () => {
  const routes = (change: Partial<ClusterFacts>) => [...new Set(plan(change).dials.map(({ via }) => via))];
  const [all, noFront] = [
    ["service", "balancer", "front"],
    ["service", "balancer"],
  ];

  test("if it has no address", () => {
    assert.deepEqual(routes({}), all);
    assert.deepEqual(routes(nginx({ clusterIPs: [] })), ["balancer", "front"]);
    assert.deepEqual(routes(nginx({ entries: [] })), ["service", "front"]);
    assert.deepEqual(routes(relayed({ clusterIPs: [] })), noFront);
  });

  test("through the proxy, if no target is relayed", () => {
    assert.deepEqual(routes(NOT_INSTALLED), noFront);
    assert.deepEqual(routes(relayed({ ports: [] })), noFront);
  });

  test("on every route, if Services cannot be read", () => {
    assert.deepEqual(plan({ services: FORBIDDEN }), { dials: [], names: [], own: [] });
  });
});

test("the front Service is dialled at its own port", () => {
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
  const { dials } = plan(targets);
  assert.deepEqual(
    dials.filter(({ via }) => via === "front").map((dial) => [dial.servicePort, dial.address, dial.port]),
    [[80, FRONT_IP, 8000]],
  );
});

describe("the probe infers a port's protocol from its number, name or appProtocol:", () => {
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

  test("are the first 20 of a load balancer, and its hostnames", () => {
    const found = plan({
      ...nginx({ entries: [{ ip: BALANCER_IP }, { hostname: "lb.example.com" }] }),
      ...served(hosts),
    });
    assert.deepEqual(found.names, [...hosts.slice(0, 20), "lb.example.com"]);
  });

  test("are at most 200 in total, each once", () => {
    const many = Array.from({ length: 11 }, (_, index) => {
      const entries = [{ ip: BALANCER_IP }, { hostname: `lb-${index}.example.com` }];
      return { ...NGINX, name: `edge-${String(index).padStart(2, "0")}`, entries };
    });
    const { names } = planProbe({ ...NOT_INSTALLED, ...served(hosts), ...services(...many, NGINX) }).plan;
    const hostnames = many.map((_, index) => `lb-${index}.example.com`);
    assert.deepEqual(names.toSorted(), [...hosts.slice(0, 20), ...hostnames].toSorted());
    const entries = [{ ip: BALANCER_IP }, ...Array.from({ length: 199 }, (_, index) => ({ hostname: `h${index}` }))];
    const [first] = hosts;
    const crowded = { ...NOT_INSTALLED, ...served(hosts.slice(0, 2)), ...services({ ...NGINX, entries }) };
    const all = planProbe(crowded).plan.names;
    assert.deepEqual([all.length, all[0], all.at(-1)], [200, first, "h197"]);
  });

  test("the first is the server name of the TLS handshake; without names it is one that cannot exist", () => {
    const name = (change: Partial<ClusterFacts>) => plan(change).dials.find(({ speaks }) => speaks === "tls")?.name;
    assert.deepEqual([name(served(hosts)), name(served([]))], [hosts[0], UNSERVED]);
  });
});

describe("an excess", () => {
  /** Maximum number of bytes of one argument in Linux, including its end (MAX_ARG_STRLEN). */
  const MAX_ARGUMENT = 131_072;
  /** A tenant's load balancers with web ports, addresses and hostnames. */
  const hostile = (count: number, each: number) =>
    Array.from({ length: count }, (_, index) => ({
      ...NGINX,
      namespace: "aaa",
      name: `many-${index}-${"x".repeat(50)}`,
      ports: Array.from({ length: each }, (__, at) => port(at + 1, "https")),
      entries: Array.from({ length: each }, (__, at) => [
        { ip: `fd00:1234:5678:9abc:def0:1234:${index.toString(16)}:${at.toString(16)}` },
        { hostname: `${index}-${at}.${`${"x".repeat(63)}.`.repeat(3)}com` },
      ]).flat(),
    }));

  for (const [count, each] of [
    [1, 200],
    [50, 200],
  ] as const) {
    test(`of ${count} Services with ${each} ports does not keep others out, and the argument fits`, () => {
      const { plan: all, leftOut } = planProbe({ ...HEALTHY, ...services(...hostile(count, each), NGINX) });
      assert.ok(Buffer.byteLength(JSON.stringify(all)) < MAX_ARGUMENT - 1, `${JSON.stringify(all).length} bytes`);
      assert.ok(all.dials.length <= 240, `${all.dials.length} dials`);
      const usual = plan({});
      for (const dial of usual.dials) assert.ok(all.dials.some((one) => isDeepStrictEqual(one, dial)));
      for (const what of ["names", "own"] as const)
        for (const one of usual[what] ?? []) assert.ok(all[what]?.includes(one));
      assert.match(leftOut.join(), /^\d+ of \d+ ports,\d+ of \d+ names/);
    });
  }

  test("is not reported if everything fits", () => {
    assert.deepEqual(planProbe(HEALTHY).leftOut, []);
  });
});
