import type { Command } from "@commander-js/extra-typings";
import { proxyDeployment } from "#doctor/checks/deployments.ts";
import { examine } from "#doctor/checks.ts";
import type { Fact } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import type { Finding } from "#doctor/findings.ts";
import { gather } from "#doctor/gather.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import { PROBE_SECONDS, type ProbeImage } from "#doctor/probe/pod.ts";
import type { ProbeResult } from "#doctor/probe/result.ts";
import type { ProbeOptions } from "#doctor/probe/run.ts";
import { reportDocument } from "#doctor/report.ts";
import type { CliContext } from "#lib/process/context.ts";
import { ask } from "./ask.ts";
import {
  type Definition,
  type FlagsOf,
  fromOption,
  installationOptions,
  namespaceName,
  notEmpty,
  outputOption,
} from "./command.ts";
import { doctorText } from "./doctor-text.ts";
import { addedChecks } from "./extras.ts";
import { type Report, render } from "./formats.ts";
import { withClient } from "./with-client.ts";

const IMAGE = "image of the probe pod, any with Node 18 or newer (default: the installed proxy's, else a public one)";

function withOptions(command: Command) {
  return installationOptions(command)
    .option("--probe", "run a short-lived pod that tests connections and resolves names, without asking")
    .option("--no-probe", "run no pod, and do not ask")
    .option("--probe-namespace <name>", "namespace for the probe pod and for the dry-run pod", namespaceName, "default")
    .option("--strict", "exit with 1 also if something could not be examined")
    .option("--image <image>", IMAGE, notEmpty)
    .addOption(fromOption(command, "namespace", "probe", "probeNamespace", "image"))
    .addOption(outputOption(command));
}

type DoctorFlags = FlagsOf<typeof withOptions>;

/** Defines `switchback doctor`. */
export function define(command: Command, { context, exit }: Definition): void {
  withOptions(command).action((flags) => exit(doctor(flags, context)));
}

/** Used if nothing is installed: the probe needs Node and nothing else. */
const PUBLIC_IMAGE = "docker.io/library/node:22-slim";

/**
 * Diagnoses a cluster with the caller's own permissions and prints the findings. @returns the exit code: 1 if
 * anything is broken or, with `--strict`, if anything is unknown.
 */
export async function doctor(flags: DoctorFlags, context: CliContext): Promise<number> {
  const findings = await (flags.from === undefined ? examineCluster(flags, context) : examineFile(flags.from, context));
  context.stdout.write(await render(flags.output, doctorReport(findings)));
  const isFailure = ({ status }: Finding) => status === "broken" || (flags.strict === true && status === "unknown");
  return findings.some(isFailure) ? 1 : 0;
}

async function examineCluster(flags: DoctorFlags, context: CliContext): Promise<readonly Finding[]> {
  const { stderr, progress } = context;
  const added = await addedChecks();
  return await withClient("doctor", flags, context, async (client) => {
    stderr.line(`diagnosing ${client.server}`);
    const read = () => gather({ client, ...flags, now: Date.now, added });
    const facts = await progress.during("reading the cluster", read);
    const { plan, leftOut } = planProbe(facts);
    const { probeNamespace: namespace } = facts;
    const image = probeImage(facts, flags.image);
    // No load balancer was found that a probe could try.
    if (plan.dials.length === 0) return examine(facts);
    if (leftOut.length > 0) stderr.line(`probe: too much for one probe, left out: ${leftOut.join(", ")}`);
    if (!(flags.probe ?? (await isAgreed({ namespace, image }, facts)))) return examine(facts);
    const options = { client, namespace, image, plan, log: stderr.line };
    return examine({ ...facts, probe: await progress.during("running the probe pod", () => probe(options)) });
  });
}

/** Diagnoses the cluster of a file, at the time of the dump. */
async function examineFile(file: string, context: CliContext): Promise<readonly Finding[]> {
  const { findingsInFile, openClusterFile } = await import("./dump/read-file.ts");
  const cluster = await openClusterFile(file, context);
  const { client, head, time } = cluster;
  const facts = await gather({ client, ...head, now: () => time, added: await addedChecks() });
  return findingsInFile(cluster, examine(facts));
}

/** For `name`, each finding once as `status/check/code`: codes never change their meaning. */
export function doctorReport(findings: readonly Finding[]): Report {
  const names = findings.map(({ status, check, code }) => `${status}/${check}/${code}`);
  return { document: reportDocument(findings), names: [...new Set(names)], text: doctorText(findings) };
}

/** Asks only if a probe would answer something that matters: whether pods are cut off. */
async function isAgreed(
  { namespace, image }: Pick<ProbeOptions, "namespace" | "image">,
  facts: ClusterFacts,
): Promise<boolean> {
  if (!examine(facts).some(({ code }) => code === "need-unseen")) return false;
  const question =
    "Pods may be cut off from the cluster's names. May I start one pod in the namespace " +
    `${namespace} from ${image.image} for up to ${PROBE_SECONDS} s? [y/N] `;
  return (await ask(question)) === true;
}

/** On a signal, stops the probe and removes its pod; a second signal ends the process at once. */
async function probe(options: Omit<ProbeOptions, "signal">): Promise<Fact<ProbeResult>> {
  const abort = new AbortController();
  const stop = (signal: NodeJS.Signals): void => abort.abort(new Error(`${signal}: the probe was stopped`));
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    const { runProbe } = await import("#doctor/probe/run.ts");
    return await runProbe({ ...options, signal: abort.signal });
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
