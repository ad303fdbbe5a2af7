import assert from "node:assert/strict";
import { test } from "node:test";
import { createClaimPolicy } from "#hostmap/claim-policy.ts";
import { Plan } from "#hostmap/plan.ts";
import { parseConfig } from "#lib/config/parse.ts";
import { targetsOf } from "#test/fakes/target-table.ts";
import { fc } from "#test/property.ts";
import { findTarget } from "./find-target.ts";
import { foundName } from "./service-view.ts";

// Compares random clusters with a model of kube-proxy, which leads an address and a port to a Service that has both.
// A name is mapped only to a Service with evidence, and each web port leads where kube-proxy may lead it.

const IPS = ["203.0.113.1", "203.0.113.2", "203.0.113.3"];
const LABELS = { nginx: { "app.kubernetes.io/name": "ingress-nginx" }, traefik: { app: "traefik" }, none: {} };
const CONTROLLERS = { nginx: "k8s.io/ingress-nginx", traefik: "traefik.io/ingress-controller" } as const;
const WEB = [80, 443];

const arbitraryService = fc.record({
  namespace: fc.constantFrom("edge", "tenant"),
  type: fc.constantFrom("LoadBalancer", "NodePort"),
  entries: fc.uniqueArray(fc.record({ ip: fc.constantFrom(...IPS), ipMode: fc.constantFrom("VIP", "Proxy") }), {
    maxLength: 2,
    selector: ({ ip }) => ip,
  }),
  externalIPs: fc.uniqueArray(fc.constantFrom(...IPS), { maxLength: 1 }),
  ports: fc.uniqueArray(fc.constantFrom<number>(80, 443, 8443), { maxLength: 3 }),
  software: fc.constantFrom("nginx", "traefik", "none"),
  always: fc.boolean(),
  age: fc.integer({ min: 10, max: 99 }),
});
type Service = typeof arbitraryService extends fc.Arbitrary<infer T> ? T : never;

const arbitraryObject = fc.record({
  addresses: fc.uniqueArray(fc.constantFrom(...IPS, "198.51.100.1"), { maxLength: 2 }),
  controller: fc.constantFrom(undefined, "nginx", "traefik"),
});

/** The addresses at which kube-proxy handles a Service (kubernetes, pkg/proxy/serviceport.go). */
function vips({ type, entries, externalIPs }: Service): string[] {
  const balancer = type === "LoadBalancer" ? entries.filter(({ ipMode }) => ipMode === "VIP") : [];
  return [...balancer.map(({ ip }) => ip), ...externalIPs];
}

/** All addresses in its status, and its externalIPs. */
function written(service: Service): string[] {
  return [...(service.type === "LoadBalancer" ? service.entries.map(({ ip }) => ip) : []), ...service.externalIPs];
}

function isExposed({ type, externalIPs }: Service): boolean {
  return type === "LoadBalancer" || externalIPs.length > 0;
}

function rawOf(service: Service, index: number) {
  return {
    metadata: {
      namespace: service.namespace,
      name: `s${index}`,
      creationTimestamp: `20${service.age}-01-01T00:00:00Z`,
      labels: LABELS[service.software as keyof typeof LABELS],
      annotations: service.always ? { "switchback.dev/map": "always" } : {},
    },
    spec: {
      type: service.type,
      clusterIPs: [`10.0.0.${index + 1}`],
      externalIPs: service.externalIPs,
      ports: service.ports.map((port) => ({ port })),
    },
    status: { loadBalancer: { ingress: service.entries } },
  };
}

test("property: no name is mapped without evidence, and its ports lead where kube-proxy may lead them", () => {
  fc.assert(
    fc.property(fc.array(arbitraryService, { maxLength: 5 }), arbitraryObject, (services, object) => {
      const { table } = targetsOf({}, services.map(rawOf));
      const { addresses, controller } = object;
      const named = controller === undefined ? {} : { controller: CONTROLLERS[controller] };
      const hints = { className: "any", addresses, admitted: true, ...named };
      const { target } = findTarget(hints, { held: undefined }, table);
      if (typeof target === "string") {
        const index = services.findIndex(({ namespace }, place) => foundName(namespace, `s${place}`) === target);
        const service = services[index];
        assert.ok(service !== undefined, "it is a Service of the cluster");
        const own = service.always ? written(service) : vips(service);
        const byAddress = addresses.some((address) => own.includes(address));
        const alike = services.filter((one) => one.software === controller);
        // Neither addresses nor DNS would speak against a Service that is always mapped, so labels decide nothing.
        const byController = service.software === controller && !service.always && vips(service).length > 0;
        assert.ok(byAddress || (byController && addresses.length === 0), "its address, or its controller, is evidence");
        if (byAddress)
          assert.ok(
            service.ports.some((port) => WEB.includes(port)),
            "it has a port of the object",
          );
        else {
          const others = alike.filter(({ namespace }) => namespace !== service.namespace);
          const isLater = (one: Service) => !isExposed(one) && one.age >= service.age;
          assert.ok(others.every(isLater), "tenants can copy labels");
        }
        checkPorts(services, index, table.found(target)?.ports ?? []);
      }
    }),
    { numRuns: 300 },
  );
});

/** Checks that each port of the target belongs to its Service, or to one with the same short-circuited address. */
function checkPorts(
  services: readonly Service[],
  index: number,
  ports: ReadonlyArray<{ readonly port: number; readonly upstreamIPs?: readonly string[] }>,
): void {
  const own = services[index];
  if (own === undefined) return;
  const mine = new Set(vips(own));
  const lenders = (port: number) =>
    services.flatMap((one, place) => {
      const shares = vips(one).some((address) => mine.has(address));
      return place !== index && shares && one.ports.includes(port) ? [`10.0.0.${place + 1}`] : [];
    });
  for (const { port, upstreamIPs } of ports) {
    if (upstreamIPs === undefined) assert.ok(own.ports.includes(port));
    else assert.ok(!own.ports.includes(port) && upstreamIPs.every((ip) => lenders(port).includes(ip)));
  }
  for (const port of WEB) {
    const isThere = ports.some((one) => one.port === port);
    assert.equal(isThere, own.ports.includes(port) || lenders(port).length > 0, `port ${port} is lost`);
  }
}

/** Most changes affect only the object, so that its target still exists. */
const arbitraryStates = fc.array(
  fc.record({
    services: fc.option(fc.array(arbitraryService, { minLength: 1, maxLength: 3 }), { nil: undefined, freq: 2 }),
    object: arbitraryObject,
  }),
  { minLength: 1, maxLength: 8 },
);

test("property: without evidence, a name stays only if it was mapped to the same target before", () => {
  let kept = 0;
  fc.assert(
    fc.property(arbitraryStates, (states) => {
      const plan = new Plan(createClaimPolicy(parseConfig({}).policy, undefined), 10);
      let current: readonly Service[] = [];
      const before = () => plan.planned.get("a.example.com")?.target;
      const from = { kind: "Ingress", namespace: "a", name: "web" };
      const created = "2026-01-01T00:00:00Z";
      for (const { services, object } of states) {
        const had = before();
        current = services ?? current;
        const { table } = targetsOf({}, current.map(rawOf));
        const { addresses, controller } = object;
        const named = controller === undefined ? {} : { controller: CONTROLLERS[controller] };
        const hints = { className: "any", addresses, admitted: true, ...named };
        const found = findTarget(hints, { held: had }, table);
        plan.set("a/web", [{ hostname: "a.example.com", from, created, ...found }]);
        plan.takeChanges();
        const { target: fresh } = findTarget(hints, { held: undefined }, table);
        const has = before();
        if (!found.undecided || has === undefined) {
          // If several Services are possible, the one that already serves the object stays.
          const possible = [fresh, found.target].map((one) => (typeof one === "string" ? one : undefined));
          assert.ok(possible.includes(has), "there is evidence");
          continue;
        }
        kept += 1;
        assert.equal(has, had, "it had this target");
        assert.ok(typeof fresh !== "string", "there is no evidence");
        assert.ok(table.found(has) !== undefined, "its target is there");
        const own = table.addressesOf(has);
        const isElsewhere = own.length > 0 && addresses.length > 0 && !addresses.some((one) => own.includes(one));
        assert.ok(!isElsewhere || fresh.code === "several-services", "no address speaks against it");
      }
    }),
    { numRuns: 300 },
  );
  assert.ok(kept > 0, "some names were kept");
});
