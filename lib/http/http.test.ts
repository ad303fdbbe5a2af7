import { test } from "node:test";
import { assertLight } from "#test/fakes/loaded.ts";

/** The entry points of the core's components that run in a pod. */
const COMPONENTS = {
  controller: "controller/run.ts",
  webhook: "cli/components/webhook.ts",
  proxy: "cli/components/proxy.ts",
} as const;

for (const [component, file] of Object.entries(COMPONENTS)) {
  test(`the ${component} does not load undici and its dependencies, which it does not use`, () => assertLight(file));
}
