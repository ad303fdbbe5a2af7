import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gatewayObject, HTTP, INFRA, type ListenerParts, routeObject } from "#test/fakes/gateway-objects.ts";
import { GatewayRegistry, type GatewayRegistryOptions } from "./gateway-registry.ts";
import { viewGateway, viewRoute } from "./view.ts";

const OPTIONS: GatewayRegistryOptions = { requireAccepted: true, listeners: false };

/** An open registry, and its reports since the last call. */
function openRegistry(options: Partial<GatewayRegistryOptions> = {}) {
  const reported: [object: string, names: readonly string[]][] = [];
  const it = new GatewayRegistry({ ...OPTIONS, ...options }, (object, claims) => {
    const shown = claims.map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname));
    reported.push([object, shown]);
  });
  return {
    it,
    reported: () => reported.splice(0).sort(([a], [b]) => (a < b ? -1 : 1)),
    gateway: (name: string, ...listeners: ListenerParts[]) =>
      it.setGateway(`${INFRA}/${name}`, viewGateway(gatewayObject(name, listeners))),
    route: (name: string, parents: readonly string[], ...hostnames: string[]) =>
      it.setRoute(`HTTPRoute ${INFRA}/${name}`, viewRoute(HTTP, routeObject(name, parents, hostnames))),
    key: (name: string) => `HTTPRoute ${INFRA}/${name}`,
  };
}

describe("the registry", () => {
  it("reports nothing before it is opened, and then everything, in any order of events", () => {
    const { it: registry, reported, gateway, route, key } = openRegistry({ listeners: true });
    route("web", ["gw"], "a.com");
    gateway("gw", { hostname: "*.com" });
    assert.deepEqual(reported(), []);
    registry.open();
    assert.deepEqual(reported(), [
      [`Gateway ${INFRA}/gw`, ["*.com"]],
      [key("web"), ["a.com"]],
    ]);
  });

  it("evaluates only a changed route, or a changed Gateway with its routes", () => {
    const { it: registry, reported, gateway, route, key } = openRegistry();
    registry.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["one", "two"], "b.com");
    route("c", ["two"], "c.com");
    reported();
    route("a", ["one"], "a.com", "also-a.com");
    assert.deepEqual(reported(), [[key("a"), ["a.com", "also-a.com"]]]);
    gateway("one", { hostname: "a.com" });
    assert.deepEqual(reported(), [
      [key("a"), ["a.com", "also-a.com: no-matching-listener"]],
      [key("b"), ["b.com"]],
    ]);
    registry.setGateway(`${INFRA}/one`, undefined);
    assert.deepEqual(reported(), [
      [key("a"), ["a.com: gateway-not-found", "also-a.com: gateway-not-found"]],
      [key("b"), ["b.com"]],
    ]);
    gateway("one", {});
    assert.deepEqual(
      reported().map(([object]) => object),
      [key("a"), key("b")],
      "routes are found again by a Gateway that was made after them",
    );
  });

  it("reports nothing if no used field has changed", () => {
    const { it: registry, reported, gateway, route } = openRegistry({ listeners: true });
    registry.open();
    gateway("one", {});
    route("a", ["one"], "a.com");
    reported();
    gateway("one", {});
    route("a", ["one"], "a.com");
    assert.deepEqual(reported(), []);
  });

  it("forgets a route that is deleted or detached from a Gateway", () => {
    const { it: registry, reported, gateway, route, key } = openRegistry();
    registry.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["one"], "b.com");
    registry.setRoute(key("a"), undefined);
    route("b", ["two"], "b.com");
    reported();
    gateway("one", { hostname: "other.com" });
    assert.deepEqual(reported(), []);
  });

  it("keeps the reported claims of a route while the labels of namespaces are unknown", () => {
    const { it: registry, reported, gateway, route, key } = openRegistry();
    const select = { from: "Selector", selector: { matchLabels: { team: "web" } } };
    registry.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["two"], "b.com");
    assert.equal(registry.selects, false);
    reported();
    gateway("one", select);
    assert.equal(registry.selects, true);
    assert.deepEqual(reported(), []);
    const labels = new Map([[INFRA, { team: "web" }]]);
    registry.setNamespaces(labels);
    assert.deepEqual(reported(), [[key("a"), ["a.com"]]]);
    labels.set(INFRA, { team: "other" });
    registry.namespaceChanged("elsewhere");
    assert.deepEqual(reported(), []);
    registry.namespaceChanged(INFRA);
    assert.deepEqual(reported(), [[key("a"), ["a.com: not-allowed"]]]);
    gateway("one", {});
    assert.equal(registry.selects, false);
  });

  it("evaluates one of 10,000 routes, or the fifty routes of one of 200 Gateways", () => {
    const { it: registry, reported, gateway, route, key } = openRegistry();
    registry.open();
    for (let index = 0; index < 200; index++) gateway(`gw${index}`, {});
    for (let index = 0; index < 10_000; index++) route(`r${index}`, [`gw${index % 200}`], `r${index}.com`);
    reported();
    route("r7", ["gw7"], "other.com");
    assert.deepEqual(reported(), [[key("r7"), ["other.com"]]]);
    gateway("gw8", { hostname: "*.com" });
    assert.equal(reported().length, 50);
  });
});

describe("the controller of a GatewayClass", () => {
  const claims = () => {
    const hints = new Map<string, unknown>();
    const registry = new GatewayRegistry({ ...OPTIONS, listeners: true }, (object, all) => {
      hints.set(
        object,
        all.map(({ hints: one }) => ("code" in one ? one.code : one.controller)),
      );
    });
    registry.open();
    return { registry, of: (object: string) => hints.get(object), clear: () => hints.clear(), size: () => hints.size };
  };
  const edge = viewGateway(gatewayObject("gw", [{ hostname: "*.a.com" }]));

  it("is a hint of its Gateways and their routes, in any order of events", () => {
    const { registry, of } = claims();
    registry.setGateway(`${INFRA}/gw`, edge);
    registry.setRoute("r", viewRoute(HTTP, routeObject("web", ["gw"], ["www.a.com"])));
    assert.deepEqual([of(`Gateway ${INFRA}/gw`), of("r")], [[undefined], [undefined]]);
    registry.setClass("example", "example.com/controller");
    assert.deepEqual([of(`Gateway ${INFRA}/gw`), of("r")], [["example.com/controller"], ["example.com/controller"]]);
    const later = claims();
    later.registry.setClass("example", "example.com/controller");
    later.registry.setGateway(`${INFRA}/gw`, edge);
    assert.deepEqual(later.of(`Gateway ${INFRA}/gw`), ["example.com/controller"]);
  });

  it("comes with the namespace of its class's parameters, which may change alone", () => {
    const namespaces: unknown[] = [];
    const registry = new GatewayRegistry({ ...OPTIONS, listeners: true }, (_object, all) => {
      namespaces.push(...all.map(({ hints }) => "gateway" in hints && hints.gateway?.classNamespace));
    });
    registry.open();
    registry.setGateway(`${INFRA}/gw`, edge);
    for (const namespace of ["system", "system", undefined]) {
      registry.setClass("example", "example.com/controller", namespace);
    }
    assert.deepEqual(namespaces, [undefined, "system", undefined]);
  });

  it("may change or disappear; events without a change, or about another class, cause no reports", () => {
    const { registry, of, clear, size } = claims();
    registry.setClass("example", "example.com/one");
    registry.setGateway(`${INFRA}/gw`, edge);
    clear();
    registry.setClass("example", "example.com/one");
    registry.setClass("other", "example.com/two");
    registry.setGateway(`${INFRA}/gw`, viewGateway(gatewayObject("gw", [{ hostname: "*.a.com" }])));
    assert.equal(size(), 0);
    registry.setClass("example", "example.com/two");
    assert.deepEqual(of(`Gateway ${INFRA}/gw`), ["example.com/two"]);
    registry.setClass("example", undefined);
    assert.deepEqual(of(`Gateway ${INFRA}/gw`), [undefined]);
  });
});
