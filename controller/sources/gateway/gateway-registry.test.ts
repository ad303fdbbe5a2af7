import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gatewayObject, HTTP, INFRA, type ListenerParts, routeObject } from "../../../test/fakes/gateway-objects.ts";
import { GatewayRegistry, type GatewayRegistryOptions } from "./gateway-registry.ts";
import { viewGateway, viewRoute } from "./view.ts";

const OPTIONS: GatewayRegistryOptions = { requireAccepted: true, listeners: false };

/** A register that is open, and what it has told since it was last asked. */
function register(options: Partial<GatewayRegistryOptions> = {}) {
  const told: [object: string, names: readonly string[]][] = [];
  const it = new GatewayRegistry({ ...OPTIONS, ...options }, (object, claims) => {
    const shown = claims.map(({ hostname, hints }) => ("code" in hints ? `${hostname}: ${hints.code}` : hostname));
    told.push([object, shown]);
  });
  return {
    it,
    told: () => told.splice(0).sort(([a], [b]) => (a < b ? -1 : 1)),
    gateway: (name: string, ...listeners: ListenerParts[]) =>
      it.setGateway(`${INFRA}/${name}`, viewGateway(gatewayObject(name, listeners))),
    route: (name: string, parents: readonly string[], ...hostnames: string[]) =>
      it.setRoute(`HTTPRoute ${INFRA}/${name}`, viewRoute(HTTP, routeObject(name, parents, hostnames))),
    key: (name: string) => `HTTPRoute ${INFRA}/${name}`,
  };
}

describe("the register", () => {
  it("tells nothing before it is opened, and then everything, whatever came first", () => {
    const { it: own, told, gateway, route, key } = register({ listeners: true });
    route("web", ["gw"], "a.com");
    gateway("gw", { hostname: "*.com" });
    assert.deepEqual(told(), []);
    own.open();
    assert.deepEqual(told(), [
      [`Gateway ${INFRA}/gw`, ["*.com"]],
      [key("web"), ["a.com"]],
    ]);
  });

  it("decides a changed route alone, and a changed Gateway with its own routes only", () => {
    const { it: own, told, gateway, route, key } = register();
    own.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["one", "two"], "b.com");
    route("c", ["two"], "c.com");
    told();
    route("a", ["one"], "a.com", "also-a.com");
    assert.deepEqual(told(), [[key("a"), ["a.com", "also-a.com"]]]);
    gateway("one", { hostname: "a.com" });
    assert.deepEqual(told(), [
      [key("a"), ["a.com", "also-a.com: no-matching-hostname"]],
      [key("b"), ["b.com"]],
    ]);
    own.setGateway(`${INFRA}/one`, undefined);
    assert.deepEqual(told(), [
      [key("a"), ["a.com: gateway-not-found", "also-a.com: gateway-not-found"]],
      [key("b"), ["b.com"]],
    ]);
    gateway("one", {});
    assert.deepEqual(
      told().map(([object]) => object),
      [key("a"), key("b")],
      "routes are found again by a Gateway that was made after them",
    );
  });

  it("tells nothing when what matters is as it was", () => {
    const { it: own, told, gateway, route } = register({ listeners: true });
    own.open();
    gateway("one", {});
    route("a", ["one"], "a.com");
    told();
    gateway("one", {});
    route("a", ["one"], "a.com");
    assert.deepEqual(told(), []);
  });

  it("forgets a route that is gone, or that left a Gateway", () => {
    const { it: own, told, gateway, route, key } = register();
    own.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["one"], "b.com");
    own.setRoute(key("a"), undefined);
    route("b", ["two"], "b.com");
    told();
    gateway("one", { hostname: "other.com" });
    assert.deepEqual(told(), []);
  });

  it("keeps what it said of a route while the labels of namespaces are not known", () => {
    const { it: own, told, gateway, route, key } = register();
    const select = { from: "Selector", selector: { matchLabels: { team: "web" } } };
    own.open();
    gateway("one", {});
    gateway("two", {});
    route("a", ["one"], "a.com");
    route("b", ["two"], "b.com");
    assert.equal(own.selects, false);
    told();
    gateway("one", select);
    assert.equal(own.selects, true);
    assert.deepEqual(told(), []);
    const labels = new Map([[INFRA, { team: "web" }]]);
    own.setNamespaces(labels);
    assert.deepEqual(told(), [[key("a"), ["a.com"]]]);
    labels.set(INFRA, { team: "other" });
    own.namespaceChanged("elsewhere");
    assert.deepEqual(told(), []);
    own.namespaceChanged(INFRA);
    assert.deepEqual(told(), [[key("a"), ["a.com: not-allowed"]]]);
    gateway("one", {});
    assert.equal(own.selects, false);
  });

  it("with 10,000 routes on 200 Gateways touches one route, or one Gateway's fifty", () => {
    const { it: own, told, gateway, route, key } = register();
    own.open();
    for (let index = 0; index < 200; index++) gateway(`gw${index}`, {});
    for (let index = 0; index < 10_000; index++) route(`r${index}`, [`gw${index % 200}`], `r${index}.com`);
    told();
    route("r7", ["gw7"], "other.com");
    assert.deepEqual(told(), [[key("r7"), ["other.com"]]]);
    gateway("gw8", { hostname: "*.com" });
    assert.equal(told().length, 50);
  });
});
