import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FullStatus } from "#controller/status.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import { type Admitted, admit, type DemoPod, podsOf } from "./admission.ts";
import { call, lookUp } from "./call.ts";
import { type IngressStandIn, startIngress } from "./ingress.ts";
import { startLivingPods } from "./living-pods.ts";
import { type DemoSystem, startSystem } from "./system.ts";

interface DemoOptions {
  /** Directory of Kubernetes YAML. */
  readonly directory: string;
  /** Keep running until `stopped`. */
  readonly keep?: boolean;
  /**
   * Shows the demo elsewhere while it keeps running, with pods that are recreated. Returns the function that ends
   * that.
   */
  readonly showLive?: (shown: LiveDemo) => Promise<() => Promise<void>>;
}

/**
 * The demo's output, and how it formats a table as text. Text from tenants goes only into a line or into a table
 * cell.
 */
interface DemoOutput {
  /** Writes one line. `text` cannot start another one. */
  readonly line: (text: string) => void;
  /** Writes a text of several lines. */
  readonly write: (text: string) => void;
  readonly table: (head: readonly string[], rows: readonly (readonly string[])[]) => string;
}

interface LiveDemo {
  readonly status: () => FullStatus;
  /** In Prometheus' text format. */
  readonly metrics: () => Promise<readonly string[]>;
}

/** Timeout for the map to follow a file change. It is long because the machine may be busy. */
const FOLLOW_MS = 15_000;
const ADDED_HOST = "added.example.com";
const ADDED_INGRESS = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: added, namespace: shop }
spec:
  ingressClassName: nginx
  rules: [{ host: ${ADDED_HOST} }]
`;

/**
 * Shows Switchback on one machine: the pods of a directory request its public names, directly and through the
 * injected alias; then an Ingress is added and the map is updated. Throws if any result is unexpected. `stopped`
 * ends `--keep`.
 */
export async function runDemo(options: DemoOptions, output: DemoOutput, stopped: Promise<void>): Promise<void> {
  await checkDirectory(options.directory);
  const extra = await mkdtemp(join(tmpdir(), "switchback-demo-"));
  const backends = new Map<string, string>();
  const ingress = await startIngress((host) => backends.get(host));
  try {
    const system = await startSystem([options.directory, extra], ingress.port, silentLogger);
    try {
      await show(options.directory, system, ingress, backends, output);
      await follow(extra, system, backends, output);
      if (options.keep) {
        output.line("");
        output.line(`Running on ${options.directory}: change its files to see updates.`);
        output.line(`Webhook on https://127.0.0.1:${system.webhook.port}`);
        output.line(`relay on 127.0.0.1:${system.front.port}. Ctrl-C ends it.`);
        await (options.showLive === undefined ? stopped : whileShown(options.showLive, system, stopped));
      }
    } finally {
      await system.stop();
    }
  } finally {
    await ingress.close();
    await rm(extra, { recursive: true, force: true });
  }
}

async function whileShown(
  show: NonNullable<DemoOptions["showLive"]>,
  system: DemoSystem,
  stopped: Promise<void>,
): Promise<void> {
  const pods = await startLivingPods(system);
  try {
    const status = () => ({ ...system.status(), running: pods.running() });
    const hide = await show({ status, metrics: system.metrics });
    await stopped;
    await hide();
  } finally {
    await pods.stop();
  }
}

async function show(
  directory: string,
  system: DemoSystem,
  ingress: IngressStandIn,
  backends: Map<string, string>,
  output: DemoOutput,
): Promise<void> {
  const { line, write, table } = output;
  await until(() => system.status().synced && system.map() !== undefined, `the files of ${directory} to be read`);
  learnBackends(system, backends);
  const status = system.status();
  line(`1. The map from the objects in ${directory}`);
  line("");
  write(
    table(
      ["name", "from", "leads to"],
      status.names.map(({ name, from, addresses, reason }) => [
        name,
        `${from.kind} ${from.namespace}/${from.name}`,
        reason === undefined ? addresses.join(", ") : `not mapped (${reason.code}): ${reason.text}`,
      ]),
    ),
  );
  const problems = status.sources.flatMap((source) => source.problems);
  if (problems.length > 0) line("");
  for (const { place, code, text } of problems) line(`! ${place}: ${text} (${code})`);
  const pods = podsOf(system.directory.objects());
  if (pods.length === 0)
    throw new SwitchbackError("input-invalid", `${directory}: there is no pod and no workload in its YAML files`);
  write(
    "\n2. Each pod goes through the webhook, as the API server sends it (HTTPS, verified against Switchback's CA)\n",
  );
  const admitted = new Map<DemoPod, Admitted>();
  for (const pod of pods) {
    const result = await admit(pod, system.webhook);
    admitted.set(pod, result);
    describePod(pod, result, line);
  }
  await requests(admitted, system, ingress, output);
}

function describePod(pod: DemoPod, { hostAliases, annotations, warnings }: Admitted, line: DemoOutput["line"]): void {
  const how =
    pod.optIn === undefined
      ? "did not opt in: the API server does not call the webhook"
      : `opted in by its ${pod.optIn}`;
  line("");
  line(`  ${pod.namespace}/${pod.name}: ${how}`);
  for (const warning of warnings) line(`    ! ${warning}`);
  for (const [key, value] of Object.entries(annotations))
    if (key.startsWith("switchback.dev/")) line(`    ${key}: ${value}`);
  for (const { ip, hostnames } of hostAliases) line(`    /etc/hosts: ${ip}  ${hostnames.join(" ")}`);
}

/**
 * Sends two requests per pod and mapped name: to the ingress controller, as kube-proxy would, and to the address in
 * /etc/hosts.
 */
async function requests(
  admitted: ReadonlyMap<DemoPod, Admitted>,
  system: DemoSystem,
  ingress: IngressStandIn,
  { line, write, table }: DemoOutput,
): Promise<void> {
  write(
    "\n3. The same request from each pod, to each name: directly, as kube-proxy short-circuits it, and through the " +
      "alias\n\n",
  );
  const names = [
    ...new Set(
      system
        .status()
        .names.filter(({ reason }) => reason === undefined)
        .map(({ name }) => name),
    ),
  ];
  const rows: string[][] = [];
  for (const [pod, { hostAliases }] of admitted) {
    for (const name of names) {
      const straight = await call(name, { address: system.front.address, port: ingress.port });
      const alias = lookUp(hostAliases, name);
      const along = alias === undefined ? undefined : await call(name, { address: alias, port: system.front.port });
      if (straight.ok)
        throw new Error(`${name} responded without a PROXY header, which the ingress controller must reject`);
      if (along?.ok === false) throw new Error(`${name} did not respond through the alias: ${along.text}`);
      rows.push([`${pod.namespace}/${pod.name}`, name, straight.text, along?.text ?? "no alias: direct"]);
    }
  }
  write(table(["pod", "name", "direct", "through the alias"], rows));
  const complaint = ingress.lastError();
  if (complaint === undefined) return;
  line("");
  line(`  the ingress controller's log: ${complaint}`);
}

async function follow(
  extra: string,
  system: DemoSystem,
  backends: Map<string, string>,
  { line, write }: DemoOutput,
): Promise<void> {
  write("\n4. An Ingress is added\n\n");
  const before = system.map()?.revision;
  const started = performance.now();
  await writeFile(join(extra, "added.yaml"), ADDED_INGRESS);
  await until(
    () => system.map()?.select(undefined).names.includes(ADDED_HOST) === true,
    "the map to include the new file",
  );
  learnBackends(system, backends);
  const took = Math.round(performance.now() - started);
  line(`  ${ADDED_HOST} is in the webhook's map after ${took} ms (revision ${before} -> ${system.map()?.revision})`);
  const answer = await call(ADDED_HOST, system.front);
  if (!answer.ok) throw new Error(`${ADDED_HOST} did not respond: ${answer.text}`);
  line(`  through the relay: ${answer.text}`);
}

async function checkDirectory(directory: string): Promise<void> {
  try {
    await readdir(directory);
  } catch (error) {
    throw new SwitchbackError("input-invalid", `${directory} is not a readable directory: ${describeError(error)}`);
  }
}

/** Makes the ingress controller serve each mapped host, with the name of the object that claims it. */
function learnBackends(system: DemoSystem, backends: Map<string, string>): void {
  for (const { name, from } of system.status().names) backends.set(name, `${from.kind} ${from.namespace}/${from.name}`);
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const deadline = performance.now() + FOLLOW_MS;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`waited ${FOLLOW_MS / 1000} s for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
