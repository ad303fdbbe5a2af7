import { describe, test } from "node:test";
import type { MakeEngine } from "../engine.ts";
import { failureCases } from "./failure-cases.ts";
import { headerCases } from "./header-cases.ts";
import { keepaliveCases } from "./keepalive-cases.ts";
import { lifecycleCases } from "./lifecycle-cases.ts";
import { limitCases } from "./limit-cases.ts";
import { relayCases } from "./relay-cases.ts";
import { resetCases } from "./reset-cases.ts";
import { outOfFiles } from "./starved-case.ts";
import type { EngineName } from "./starved-engine.ts";

const GROUPS = {
  header: headerCases,
  relay: relayCases,
  failure: failureCases,
  reset: resetCases,
  limits: limitCases,
  lifecycle: lifecycleCases,
  keepalive: keepaliveCases,
};

/** A case that hangs is a case that fails. Longer than it waits for any one thing, so that it says for what, and cleans up. */
const TIMEOUT_MS = 150_000;

/**
 * Registers, as tests of node:test, all that an engine must do, over real sockets on loopback. `name` is the engine's, for the titles
 * and for a process of its own.
 * The cases tell nothing of how an engine works: every engine passes the same ones.
 */
export function conformance(name: EngineName, make: MakeEngine): void {
  for (const [group, cases] of Object.entries(GROUPS)) {
    describe(`${name} engine: ${group}`, () => {
      for (const [title, run] of cases) test(title, { timeout: TIMEOUT_MS }, () => run(make));
    });
  }
  test(`${name} engine: out of files, turns clients away, says so and recovers`, { timeout: TIMEOUT_MS }, () =>
    outOfFiles(name),
  );
}
