import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "#test/property.ts";
import { ConnectionAdmission } from "./connection-admission.ts";

test("for any sequence of connections, neither limit is exceeded and every release frees a slot", () => {
  const step = fc.record({ source: fc.constantFrom("a", "b", "c"), leave: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 200, size: "max" }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 8 }),
      (steps, all, each) => {
        const admission = new ConnectionAdmission({ maxConnections: all, maxConnectionsPerSource: each });
        const open: string[] = [];
        for (const { source, leave } of steps) {
          const held = open.filter((other) => other === source).length;
          if (leave) {
            if (held > 0) admission.release(open.splice(open.indexOf(source), 1)[0]!);
            continue;
          }
          const refusal = admission.admit(source);
          assert.equal(refusal, open.length >= all ? "limit-total" : held >= each ? "limit-source" : undefined);
          if (refusal === undefined) open.push(source);
        }
      },
    ),
  );
});
