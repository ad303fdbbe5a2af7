import assert from "node:assert/strict";
import { test } from "node:test";
import { FORBIDDEN, HEALTHY } from "#test/fakes/doctor-facts.ts";
import { known } from "../fact.ts";
import { checkNodeAddresses } from "./node-address.ts";

const NODES = known(new Set(["192.0.2.2", "192.0.2.3"]));

const ingress = (name: string, ...addresses: string[]) => {
  return { kind: "Ingress" as const, namespace: "shop", name, addresses, hosts: [], className: "nginx" };
};
const found = (nodeAddresses: typeof NODES | typeof FORBIDDEN | undefined, ...all: ReturnType<typeof ingress>[]) =>
  checkNodeAddresses({ ...HEALTHY, ingresses: known(all), nodeAddresses });

test("reports the objects whose addresses all belong to nodes, and none to a Service", () => {
  const own = ["192.0.2.2", "192.0.2.3"];
  const [finding, ...others] = found(
    NODES,
    ingress("on-nodes", ...own),
    ingress("also-elsewhere", "192.0.2.2", "203.0.113.9"),
    ingress("balanced", "192.0.2.2", "192.0.2.80"),
    ingress("without-status"),
  );
  assert.deepEqual(others, []);
  assert.deepEqual([finding?.status, finding?.code], ["ok", "node-address"]);
  assert.match(finding?.evidence ?? "", /^the status of Ingress shop\/on-nodes has addresses of nodes/);
});

test("reports nothing if no address is a node's, or if the nodes were not read", () => {
  assert.deepEqual(found(NODES, ingress("elsewhere", "203.0.113.9")), []);
  assert.deepEqual(found(undefined, ingress("on-nodes", "192.0.2.2")), []);
});

test("nodes that the doctor may not read are unknown, not absent", () => {
  const [finding] = found(FORBIDDEN, ingress("on-nodes", "192.0.2.2"));
  assert.deepEqual([finding?.status, finding?.code], ["unknown", "right-missing"]);
});
