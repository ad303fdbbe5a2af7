import { parseArgs } from "node:util";
import { createReporter } from "../report.ts";
import { measureCertManager } from "./cert-manager.ts";
import { measureLive } from "./live.ts";
import { measureNode } from "./node.ts";
import { measureRestarts } from "./restart.ts";

/**
 * `npm run bench -- current [--json] [--only node|restart|live|cert-manager] [--pods 200] [--kinds 1] [--names
 * 5000] [--changes 100] [--idle 30] [--restarts 5]`
 *
 * How soon running pods follow the map, and what that costs. First it measures one node's agent against its own
 * control plane. Then, as root, it measures restarts, `live` and cert-manager with either on this machine's cluster.
 * It needs `npm ci` and Go.
 */
export async function run(argv: string[]): Promise<void> {
  const { values } = parseArgs({
    args: argv,
    options: {
      only: { type: "string", default: "node,restart,live,cert-manager" },
      json: { type: "boolean", default: false },
      pods: { type: "string", default: "200" },
      kinds: { type: "string", default: "1" },
      names: { type: "string", default: "5000" },
      changes: { type: "string", default: "100" },
      idle: { type: "string", default: "30" },
      restarts: { type: "string", default: "5" },
    },
  });
  const report = createReporter("current", values.json);
  const changes = Number(values.changes);
  const [pods, kinds, names] = [values.pods, values.kinds, values.names].map(Number) as [number, number, number];
  const node = { pods, kinds, names, changes, idleSeconds: Number(values.idle) };
  if (values.only.includes("node")) await measureNode(node, report);
  if (values.only.includes("restart")) await measureRestarts(Number(values.restarts), report);
  if (values.only.includes("live")) await measureLive(changes, report);
  if (values.only.includes("cert-manager")) await measureCertManager(report);
}
