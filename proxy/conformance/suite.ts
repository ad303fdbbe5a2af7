import { describe, test } from "node:test";
import type { MakeEngine } from "../engine.ts";
import { clientHeaderCases } from "./client-header-cases.ts";
import { failureCases } from "./failure-cases.ts";
import { halfClosedCases } from "./half-closed-cases.ts";
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
  "client headers": clientHeaderCases,
  "half-closed": halfClosedCases,
  lifecycle: lifecycleCases,
  keepalive: keepaliveCases,
};

/**
 * Timeout of a case. Longer than any single wait, so that the wait reports its error first and the case cleans up.
 */
const TIMEOUT_MS = 150_000;

/**
 * Registers the conformance cases as tests of node:test, over real sockets on loopback. `name` is the engine's name,
 * for the titles and for the case that runs the engine in its own process. The cases are independent of an engine's
 * implementation: every engine passes the same ones.
 */
export function conformance(name: EngineName, make: MakeEngine): void {
  for (const [group, cases] of Object.entries(GROUPS)) {
    describe(`${name} engine: ${group}`, () => {
      for (const [title, run] of cases) test(title, { timeout: TIMEOUT_MS }, () => run(make));
    });
  }
  test(`${name} engine: out of files, refuses clients, logs it and recovers`, { timeout: TIMEOUT_MS }, () =>
    outOfFiles(name),
  );
}
