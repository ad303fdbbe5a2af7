import type { Command } from "@commander-js/extra-typings";
import { InvalidArgumentError } from "commander";
import { proxyDeployment } from "#doctor/checks/deployments.ts";
import { examine } from "#doctor/checks.ts";
import type { Fact } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import type { Finding } from "#doctor/findings.ts";
import { gather } from "#doctor/gather.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import { PROBE_SECONDS, type ProbeImage } from "#doctor/probe/pod.ts";
import type { ProbePlan, ProbeResult } from "#doctor/probe/result.ts";
import { reportDocument } from "#doctor/report.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext, Output } from "#lib/process/context.ts";
import { askAtTerminal } from "./ask.ts";
import { type Definition, fromOption, installationOptions, namespaceName, outputOption } from "./command.ts";
import { doctorText } from "./doctor-text.ts";
import { addedChecks } from "./extras.ts";
import { type Format, type Report, render } from "./formats.ts";

interface DoctorFlags extends ConnectFlags {
  readonly namespace: string;
  /** Whether a pod may run. Undefined: ask, if there is a terminal and a probe would answer something. */
  readonly probe?: boolean | undefined;
  /** Whether the command also fails if something could not be read. */
  readonly strict?: boolean | undefined;
  readonly probeNamespace: string;
  readonly image?: string | undefined;
  /** A file, or `-` for standard input, instead of a cluster. */
  readonly from?: string | undefined;
  readonly output: Format;
}

/** Defines `switchback doctor`. */
export function define(command: Command, { context, exit }: Definition): void {
  installationOptions(command)
    .option("--probe", "run a short-lived pod that tests connections and resolves names, without asking")
    .option("--no-probe", "run no pod, and do not ask")
    .option("--probe-namespace <name>", "namespace for the probe pod and for the dry-run pod", namespaceName, "default")
    .option("--strict", "exit with 1 also if something could not be examined")
    .option(
      "--image <image>",
      "image of the probe pod, any with Node 18 or newer (default: the installed proxy's, else a public one)",
      imageReference,
    )
    .addOption(fromOption(command, "namespace", "probe", "probeNamespace", "image"))
    .addOption(outputOption(command))
    .action((flags) => exit(doctor(flags, context)));
}

/** Checks the form of an image reference; only the node knows whether the image exists. */
function imageReference(value: string): string {
  if (/^[\w.-]+(?::\d+)?(?:\/[\w.-]+)*(?::[\w.-]+)?(?:@[\w+.-]+:[0-9a-fA-F]+)?$/.test(value)) return value;
  throw new InvalidArgumentError("Expected an image, such as registry.example.com/switchback:0.1.0.");
}

/** Used if nothing is installed: the probe needs Node and nothing else. */
const PUBLIC_IMAGE = "docker.io/library/node:22-slim";

/**
 * Diagnoses a cluster with the caller's own permissions and prints the findings. @returns the exit code: 1 if
 * anything is broken or, with `--strict`, if anything is unknown.
 */
export async function doctor(
  flags: DoctorFlags,
  context: CliContext,
  ask: typeof askAtTerminal = askAtTerminal,
): Promise<number> {
  const { env, stdout, stderr, progress } = context;
  if (flags.from !== undefined) return await doctorFrom(flags.from, flags, context);
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-doctor" });
  const log = stderr.line;
  try {
    log(`diagnosing ${client.server}`);
    const added = await addedChecks();
    const facts = await progress.during("reading the cluster", () =>
      gather({ client, ...flags, now: Date.now, added }),
    );
    const planned = plannedProbe(facts, flags, log);
    const isWanted = planned !== undefined && (flags.probe ?? (await isAgreed(planned, facts, ask)));
    if (!isWanted) return await print(examine(facts), flags, stdout);
    const probed = await progress.during("running the probe pod", () => runPlanned(client, planned, log));
    return await print(examine({ ...facts, probe: probed }), flags, stdout);
  } finally {
    client.close();
  }
}

/** Diagnoses the cluster of a file, at the time of the dump. */
async function doctorFrom(file: string, flags: DoctorFlags, context: CliContext): Promise<number> {
  const { stdout, stderr, progress } = context;
  const { findingsInFile, readClusterFile } = await import("./dump/read-file.ts");
  const cluster = await progress.during(`reading ${file}`, () => readClusterFile(file));
  for (const line of cluster.leftOut) stderr.line(line);
  const { client, head, time } = cluster;
  const facts = await gather({ client, ...head, now: () => time, added: await addedChecks() });
  return await print(findingsInFile(cluster, examine(facts)), flags, stdout);
}

async function print(findings: readonly Finding[], flags: DoctorFlags, stdout: Output): Promise<number> {
  stdout.write(await render(flags.output, doctorReport(findings, stdout.columns)));
  return isFailure(findings, flags.strict === true) ? 1 : 0;
}

function isFailure(findings: readonly Finding[], strict: boolean): boolean {
  return findings.some(({ status }) => status === "broken" || (strict && status === "unknown"));
}

/** For `name`, each finding once as `status/check/code`: codes never change their meaning. */
export function doctorReport(findings: readonly Finding[], columns: number | undefined): Report {
  const names = findings.map(({ status, check, code }) => `${status}/${check}/${code}`);
  return {
    document: reportDocument(findings),
    names: [...new Set(names)],
    text: (wide) => doctorText(findings, wide ? undefined : columns),
  };
}

type LogLine = (line: string) => void;

interface PlannedProbe {
  readonly namespace: string;
  readonly image: ProbeImage;
  readonly plan: ProbePlan;
}

/** Undefined if no load balancer was found that a probe could try. */
function plannedProbe(facts: ClusterFacts, { image }: DoctorFlags, log: LogLine): PlannedProbe | undefined {
  const { plan, leftOut } = planProbe(facts);
  if (plan.dials.length === 0) return undefined;
  if (leftOut.length > 0) log(`probe: too much for one probe, left out: ${leftOut.join(", ")}`);
  return { namespace: facts.probeNamespace, image: probeImage(facts, image), plan };
}

/** Asks only if a probe would answer something that matters: whether pods are cut off. */
async function isAgreed(
  { namespace, image }: PlannedProbe,
  facts: ClusterFacts,
  ask: typeof askAtTerminal,
): Promise<boolean> {
  if (!examine(facts).some(({ code }) => code === "need-unseen")) return false;
  const question =
    "Pods may be cut off from the cluster's names. May I start one pod in the namespace " +
    `${namespace} from ${image.image} for up to ${PROBE_SECONDS} s? [y/N] `;
  return (await ask(question)) === true;
}

/** On a signal, stops the probe and removes its pod; a second signal ends the process at once. */
async function runPlanned(client: KubeClient, planned: PlannedProbe, log: LogLine): Promise<Fact<ProbeResult>> {
  const abort = new AbortController();
  const stop = (signal: NodeJS.Signals): void => abort.abort(new Error(`${signal}: the probe was stopped`));
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    const { runProbe } = await import("#doctor/probe/run.ts");
    return await runProbe({ client, ...planned, log, signal: abort.signal });
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** The given image, else the installed proxy's, which nodes have already pulled, else a public one. */
function probeImage(facts: ClusterFacts, image: string | undefined): ProbeImage {
  const installed = proxyDeployment(facts);
  if (image === undefined && installed !== undefined && installed.image !== "") return installed;
  return { image: image ?? PUBLIC_IMAGE, pullPolicy: "IfNotPresent" };
}
