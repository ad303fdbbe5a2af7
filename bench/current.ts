import { parseArgs } from "node:util";
import { measureNode } from "./current-node.ts";
import { createReporter } from "./report.ts";

/**
 * `npm run bench -- current [--json] [--pods 200] [--names 5000] [--changes 50] [--idle 30]`
 *
 * How soon running pods follow the map, and what that costs.
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      json: { type: "boolean", default: false },
      pods: { type: "string", default: "200" },
      names: { type: "string", default: "5000" },
      changes: { type: "string", default: "50" },
      idle: { type: "string", default: "30" },
    },
  });
  const report = createReporter("current", values.json);
  await measureNode(
    {
      pods: Number(values.pods),
      names: Number(values.names),
      changes: Number(values.changes),
      idleSeconds: Number(values.idle),
    },
    report,
  );
}
