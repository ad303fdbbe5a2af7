import type { Command } from "@commander-js/extra-typings";
import { parseAllDocuments } from "yaml";
import type { NameStatus } from "#controller/status.ts";
import { planInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY } from "#hostmap/metadata-keys.ts";
import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { HostAlias, PublishedMap } from "#hostmap/types.ts";
import type { ApiObject } from "#lib/kube/types.ts";
import type { CliContext } from "#lib/process/context.ts";
import type { Definition } from "./command.ts";
import { call, startIngress } from "./demo/ingress.ts";
import { type DemoSystem, startSystem } from "./demo/system.ts";
import * as ownFiles from "./own-files.ts";
import { type Row, table } from "./table.ts";

/** Defines `switchback demo`. */
export function define(command: Command, { context }: Definition): void {
  command
    .option("--dashboard", "keep running until Ctrl-C, and show the names on a page of this machine")
    .action(({ dashboard = false }) => demo(dashboard, context));
}

/**
 * `switchback demo`: shows Switchback on one machine. The objects of the examples are mapped as in a cluster, and their
 * pods request the mapped names, directly and through the relay. With `dashboard` a page shows the names, until Ctrl-C.
 * Throws an error if a result is unexpected.
 */
export async function demo(dashboard: boolean, { stdout }: CliContext): Promise<void> {
  const interrupted = new Promise<void>((resolve) => process.once("SIGINT", () => resolve()));
  const texts = ownFiles.ownFolder(ownFiles.EXAMPLES);
  const objects = texts.flatMap((text) => parseAllDocuments(text).map((each): ExampleObject => each.toJS()));
  const backends = new Map<string, string>();
  const ingress = await startIngress((host) => backends.get(host));
  const system = await startSystem(objects, ingress.port);
  try {
    const { names } = system.status;
    // The ingress controller serves each mapped host, with the name of the object that claims it.
    for (const { name, from } of names) backends.set(name, objectOf(from));
    stdout.write(`The names of ${ownFiles.EXAMPLES}, as the controller maps them to the relay\n\n`);
    const nameRows = names.map(({ name, from, addresses }) => ({ cells: [name, objectOf(from), addresses.join(" ")] }));
    stdout.write(table(["NAME", "FROM", "LEADS TO"], nameRows));
    stdout.write("\nThe pods, as the webhook changes them\n\n");
    const pods = podsOf(objects, system.map);
    stdout.write(table(["POD", "OPTED IN BY", "NAMES IN /etc/hosts"], pods.map(podRow)));
    stdout.write("\nTheir requests, to the ingress controller itself and through the relay\n\n");
    stdout.write(table(["POD", "NAME", "DIRECT", "THROUGH THE RELAY"], await requests(pods, system, ingress.port)));
    stdout.line("");
    stdout.line(`The ingress controller logs: ${ingress.lastError()}`);
    stdout.line("Through the relay each name answers, because the relay adds the PROXY header.");
    if (dashboard) await showPage(system, stdout.line, interrupted);
    else stdout.line("Next: `npx switchback doctor` checks whether the pods of your cluster need this.");
  } finally {
    await system.stop();
  }
}

interface ExampleObject extends ApiObject {
  /** Of a pod. */
  readonly spec?: { readonly hostAliases?: readonly HostAlias[] };
}

/** A pod after the webhook. `optIn` is what opted it in. */
interface DemoPod {
  readonly name: string;
  readonly optIn: "namespace" | "pod" | undefined;
  readonly hostAliases: readonly HostAlias[];
}

/** The pods among the objects, as the webhook changes them. */
function podsOf(objects: readonly ExampleObject[], map: PublishedMap): DemoPod[] {
  const choose = createSelector(map, DEFAULT_MAX_NAMES);
  const labelOf = ({ metadata }: ApiObject) => metadata?.labels?.[INJECT_KEY];
  const enabled = objects.filter((object) => object.kind === "Namespace" && labelOf(object) === "enabled");
  const pods = objects.filter(({ kind }) => kind === "Pod");
  return pods.map((pod): DemoPod => {
    const { metadata: { namespace, name, annotations = {} } = {}, spec: { hostAliases = [] } = {} } = pod;
    // The selectors of the MutatingWebhookConfiguration.
    const isInside = enabled.some(({ metadata }) => metadata?.name === namespace) && labelOf(pod) !== "disabled";
    const optIn = labelOf(pod) === "enabled" ? "pod" : isInside ? "namespace" : undefined;
    const { userAliases, managed } = planInjection(hostAliases, annotations, choose(annotations[HOSTS_KEY]));
    const injected = [...userAliases, ...managed.aliases];
    return { name: `${namespace}/${name}`, optIn, hostAliases: optIn === undefined ? hostAliases : injected };
  });
}

function objectOf({ kind, namespace, name }: NameStatus["from"]): string {
  return `${kind} ${namespace}/${name}`;
}

function podRow({ name, optIn, hostAliases }: DemoPod): Row {
  const hosts = hostAliases.map(({ ip, hostnames }) => `${ip} ${hostnames.join(" ")}`).join(", ");
  return { cells: [name, optIn ?? "-", hosts || "-"] };
}

/**
 * Sends two requests for each name of each opted-in pod: to the ingress controller, as kube-proxy would, and to the
 * address in /etc/hosts. Throws if one of the results is unexpected.
 */
async function requests(pods: readonly DemoPod[], { map, front }: DemoSystem, ingressPort: number): Promise<Row[]> {
  const rows: Row[] = [];
  for (const pod of pods) {
    for (const { name } of map.hosts) {
      const alias = pod.hostAliases.find(({ hostnames }) => hostnames.includes(name))?.ip;
      if (alias === undefined) continue;
      const direct = await call(name, front.address, ingressPort);
      const relayed = await call(name, alias, front.port);
      if (/^\d/.test(direct))
        throw new Error(`${name} answers without a PROXY header, which the ingress controller rejects`);
      if (!relayed.startsWith("200 ")) throw new Error(`${name} does not answer through the relay: ${relayed}`);
      rows.push({ cells: [pod.name, name, direct, relayed] });
    }
  }
  return rows;
}

/** Shows the demo as an installation on a page, until `interrupted`. */
async function showPage(system: DemoSystem, say: (line: string) => void, interrupted: Promise<void>): Promise<void> {
  const { showDemo } = await import("#extras/dashboard/server/demo-page.ts");
  const { status, metrics } = system;
  const hide = await showDemo({ status: () => status, metrics, ownFiles, say });
  say("Ctrl-C ends it.");
  await interrupted;
  await hide();
}
