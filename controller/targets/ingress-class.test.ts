import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { targetOfClass } from "./ingress-class.ts";

function targetsOf(...targets: ReadonlyArray<readonly [name: string, classes: readonly string[]]>): TargetConfig[] {
  return targets.map(([name, classes]) => ({
    ...(parseConfig({}).targets[0] as TargetConfig),
    name,
    classes: [...classes],
  }));
}

const LISTED = targetsOf(["nginx", ["nginx", "nginx-old"]]);
const TWO = targetsOf(["nginx", ["nginx"]], ["traefik", ["traefik"]]);

const CASES: ReadonlyArray<readonly [targets: TargetConfig[], className: string | undefined, expected: string]> = [
  [LISTED, "nginx-old", "nginx"],
  [LISTED, "traefik", "no-target"],
  [LISTED, undefined, "no-class"],
  [TWO, "traefik", "traefik"],
  [TWO, "Traefik", "no-target"],
  [TWO, undefined, "no-class"],
  // The schema rejects this, because a guess could misroute traffic. The code rejects it too.
  [targetsOf(["nginx", []], ["traefik", ["traefik"]]), "other", "no-target"],
  [[], "nginx", "no-target"],
];
for (const [targets, className, expected] of CASES) {
  const list = targets.map(({ name, classes }) => `${name} [${classes.join()}]`).join(", ");
  test(`class ${className ?? "(none)"} with targets ${list || "(none)"}: ${expected}`, () => {
    const target = targetOfClass(className, targets);
    assert.equal(typeof target === "string" ? target : target.code, expected);
  });
}

test("the reason names the class, sanitized, and the accepted classes", () => {
  const reason = targetOfClass("x\n", TWO);
  assert.deepEqual(reason, {
    code: "no-target",
    text: 'no target serves the ingress class "x\\n"; the targets list nginx, traefik',
  });
});
