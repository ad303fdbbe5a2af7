import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { TargetDiscovery } from "./discovery.ts";

// Without discovery, no Service is read: the class of an object decides, whatever its addresses.

const upstream = { service: { namespace: "edge", name: "lb" } };
const LISTED = [{ name: "nginx", upstream, classes: ["nginx", "nginx-old"] }];
const TWO = ["nginx", "traefik"].map((name) => ({ name, upstream, classes: [name] }));
const DEFAULT = [{ name: "only", upstream }];

function resolve(targets: readonly object[], className: string | undefined) {
  const discovery = new TargetDiscovery({ config: parseConfig({ targets }), log: silentLogger });
  return discovery.resolve({ className, addresses: ["203.0.113.9"], admitted: true });
}

for (const [targets, className, expected] of [
  [LISTED, "nginx-old", "nginx"],
  [LISTED, "traefik", "no-target"],
  [LISTED, undefined, "no-class"],
  [TWO, "traefik", "traefik"],
  [TWO, "Traefik", "no-target"],
  [DEFAULT, undefined, "only"],
  [DEFAULT, "anything", "only"],
  [DEFAULT, "gce", "another-controller"],
  [[], "nginx", "no-target"],
] as const) {
  const names = targets.map(({ name }) => name).join(", ");
  test(`class ${className ?? "(none)"} with targets ${names || "(none)"}: ${expected}`, () => {
    const target = resolve(targets, className);
    assert.equal(typeof target === "string" ? target : target.code, expected);
  });
}

test("the reason names the class, sanitized, and the accepted classes", () => {
  assert.deepEqual(resolve(TWO, "x\n"), {
    code: "no-target",
    text: 'no target serves the ingress class "x\\n"; the targets list nginx, traefik',
  });
});
