import type { Command } from "@commander-js/extra-typings";
import type { RolloutStatus } from "#controller/rollout/report.ts";
import type { FullStatus, NameStatus } from "#controller/status.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { CliContext } from "#lib/process/context.ts";
import type { Definition } from "./command.ts";
import { type AdmittedPod, admitAll } from "./demo/admission.ts";
import { call } from "./demo/call.ts";
import { type IngressStandIn, startIngress } from "./demo/ingress.ts";
import { readObjects } from "./demo/objects.ts";
import { type DemoSystem, startSystem } from "./demo/system.ts";
import { EXAMPLES, hasOwnFile, hasOwnFolder, ownFile, ownFolder } from "./own-files.ts";
import { type Row, table } from "./table.ts";

/** Defines `switchback demo`. */
export function define(command: Command, { context }: Definition): void {
  command
    .argument("[directory]", "directory with Kubernetes YAML (default: examples that come with this program)")
    .option("--dashboard", "keep running until Ctrl-C, and show the names on a page of this machine")
    .action((directory, flags) => demo({ directory: directory ?? ownFolder(EXAMPLES), ...flags }, context));
}

interface DemoOptions {
  readonly directory: string;
  /** Whether the dashboard shows the names, until Ctrl-C. */
  readonly dashboard?: true | undefined;
}

/**
 * `switchback demo`: shows Switchback on one machine. The objects of a directory are mapped as in a cluster, and its
 * pods request the mapped names, directly and through the relay. Throws `input-invalid` for a directory without pods,
 * and an error if a result is unexpected.
 */
export async function demo({ directory, dashboard }: DemoOptions, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const objects = await readObjects(directory);
  const backends = new Map<string, string>();
  const ingress = await startIngress((host) => backends.get(host));
  try {
    const system = await startSystem(objects, ingress.port);
    try {
      // The ingress controller serves each mapped host, with the name of the object that claims it.
      for (const { name, from } of system.status.names) backends.set(name, objectOf(from));
      stdout.write(`The names of ${directory}, as the controller maps them to the relay\n\n`);
      stdout.write(table(["NAME", "FROM", "LEADS TO"], system.status.names.map(nameRow)));
      stdout.write("\nThe pods, as the webhook changes them\n\n");
      const pods = admitAll(objects, system.map);
      if (pods.length === 0)
        throw new SwitchbackError("input-invalid", `${directory}: no pod or workload in its files`);
      stdout.write(table(["POD", "OPTED IN BY", "NAMES IN /etc/hosts"], pods.map(podRow)));
      stdout.write("\nTheir requests, to the ingress controller itself and through the relay\n\n");
      const rows = await requests(pods, system, ingress);
      stdout.write(table(["POD", "NAME", "DIRECT", "THROUGH THE RELAY"], rows));
      stdout.line("");
      if (ingress.lastError() !== undefined) stdout.line(`The ingress controller logs: ${ingress.lastError()}`);
      stdout.line("Through the relay each name answers, because the relay adds the PROXY header.");
      if (dashboard) await showPage(system, pods, stdout.line, interrupted);
      else stdout.line("Next: `npx switchback doctor` checks whether the pods of your cluster need this.");
    } finally {
      await system.stop();
    }
  } finally {
    await ingress.close();
  }
}

function objectOf({ kind, namespace, name }: NameStatus["from"]): string {
  return `${kind} ${namespace}/${name}`;
}

function nameRow({ name, from, addresses, reason }: NameStatus): Row {
  const mapped = reason === undefined ? addresses.join(" ") : `not mapped (${reason.code}): ${reason.text}`;
  return { cells: [name, objectOf(from), mapped] };
}

function podRow({ namespace, name, optIn, hostAliases, warnings }: AdmittedPod): Row {
  const hosts = hostAliases.map(({ ip, hostnames }) => `${ip} ${hostnames.join(" ")}`).join(", ");
  return { cells: [`${namespace}/${name}`, optIn ?? "-", hosts || "-"], notes: warnings };
}

/**
 * Sends two requests for each name of each opted-in pod: to the ingress controller, as kube-proxy would, and to the
 * address in /etc/hosts.
 */
async function requests(
  pods: readonly AdmittedPod[],
  { status, front }: DemoSystem,
  ingress: IngressStandIn,
): Promise<Row[]> {
  const names = new Set(status.names.filter(({ reason }) => reason === undefined).map(({ name }) => name));
  const rows: Row[] = [];
  for (const pod of pods) {
    for (const name of names) {
      const alias = pod.hostAliases.find(({ hostnames }) => hostnames.includes(name))?.ip;
      if (alias === undefined) continue;
      const direct = await call(name, { address: front.address, port: ingress.port });
      const relayed = await call(name, { address: alias, port: front.port });
      if (direct.ok) throw new Error(`${name} answers without a PROXY header, which the ingress controller rejects`);
      if (!relayed.ok) throw new Error(`${name} does not answer through the relay: ${relayed.text}`);
      rows.push({
        cells: [`${pod.namespace}/${pod.name}`, name, direct.text, relayed.text],
        painted: { column: 3, style: "good" },
      });
    }
  }
  return rows;
}

/** Shows the demo as an installation on a page, until `interrupted`. */
async function showPage(
  system: DemoSystem,
  pods: readonly AdmittedPod[],
  say: (line: string) => void,
  interrupted: Promise<void>,
): Promise<void> {
  const { showDemo } = await import("#extras/dashboard/server/demo-page.ts");
  const status = (): FullStatus => ({ ...system.status, running: runningOf(pods) });
  const ownFiles = { ownFile, hasOwnFile, hasOwnFolder };
  const hide = await showDemo({ status, metrics: system.metrics, ownFiles, say });
  say("Ctrl-C ends it.");
  await interrupted;
  await hide();
}

/** The opted-in pods, in the form in which a leader reports them. */
function runningOf(pods: readonly AdmittedPod[]): RolloutStatus {
  const workloads = pods
    .filter(({ optIn }) => optIn !== undefined)
    .map(({ namespace, name }) => ({
      namespace,
      kind: "Pod",
      name,
      pods: 1,
      stale: 0,
      notInjected: 0,
      mode: "none" as const,
      modeFrom: "the demo",
      standing: "in-step" as const,
      code: "in-step",
      text: "the webhook has just changed it",
      lastRestart: undefined,
      warnings: [],
    }));
  return {
    unknown: undefined,
    underWay: undefined,
    waiting: 0,
    counts: { workloads: workloads.length, pods: workloads.length, stale: 0 },
    workloads,
    omitted: 0,
  };
}
