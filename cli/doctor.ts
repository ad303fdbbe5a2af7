import { createReadStream } from "node:fs";
import { examine } from "#doctor/checks.ts";
import { type Fact, notKnown } from "#doctor/fact.ts";
import type { ClusterFacts } from "#doctor/facts.ts";
import type { Finding } from "#doctor/findings.ts";
import { gather } from "#doctor/gather.ts";
import { gatherCallers } from "#doctor/gather-callers.ts";
import { readLog } from "#doctor/ingress-log.ts";
import { planProbe } from "#doctor/probe/plan.ts";
import type { ProbeImage } from "#doctor/probe/pod.ts";
import type { ProbeResult } from "#doctor/probe/result.ts";
import { proxyDeployment } from "#doctor/proxy-deployment.ts";
import { reportDocument } from "#doctor/report.ts";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { type ConnectFlags, connect, connectOptionsFrom } from "#lib/kube/connect.ts";
import type { CliContext, Output } from "#lib/process/context.ts";
import { doctorText } from "./doctor-text.ts";
import { addedChecks } from "./extras.ts";
import { type Format, type Report, render } from "./formats.ts";

interface DoctorFlags extends ConnectFlags {
  readonly namespace: string;
  readonly probe?: boolean;
  /** Whether the command also fails if something could not be read. */
  readonly strict?: boolean;
  readonly probeNamespace: string;
  readonly image?: string;
  /** A log of the ingress controller, or `-` for standard input. */
  readonly ingressLog?: string;
  /** A dump, or `-` for standard input, instead of a cluster. */
  readonly from?: string;
  readonly output: Format;
}

/**
 * Diagnoses a cluster with the caller's own permissions and prints the findings. @returns the exit code: 1 if
 * anything is broken or, with `--strict`, if anything is unknown.
 */
export async function doctor(flags: DoctorFlags, context: CliContext): Promise<number> {
  const { env, stdout, stderr, progress } = context;
  if (flags.from !== undefined) return await doctorFrom(flags.from, flags, context);
  const ingressLog = flags.ingressLog === undefined ? undefined : await readIngressLog(flags.ingressLog);
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-doctor" });
  const log = stderr.line;
  try {
    log(`diagnosing ${client.server}`);
    const added = await addedChecks();
    const facts = await progress.during("reading the cluster", () =>
      gather({ client, ...flags, now: Date.now, added }),
    );
    const probed = flags.probe
      ? await progress.during("running the probe pod", () => probe(client, facts, flags, log))
      : undefined;
    const callers = ingressLog === undefined ? undefined : await gatherCallers(client, ingressLog);
    return await print(examine({ ...facts, probe: probed, callers }), flags, stdout);
  } finally {
    client.close();
  }
}

/** Diagnoses a dump instead of a cluster, at the time of the dump. */
async function doctorFrom(file: string, flags: DoctorFlags, context: CliContext): Promise<number> {
  const { stdout, stderr, progress } = context;
  const { readDump } = await import("./dump/read-dump.ts");
  const { head, client, time, lookups, leftOut } = await progress.during(`reading ${file}`, () => readDump(file));
  for (const line of leftOut) stderr.line(line);
  const facts = await gather({ client, ...head, now: () => time, added: await addedChecks() });
  return await print(examine({ ...facts, probe: undefined, lookups }), flags, stdout);
}

async function print(findings: readonly Finding[], flags: DoctorFlags, stdout: Output): Promise<number> {
  stdout.write((await render(flags.output, doctorReport(findings, stdout.columns))).text);
  return isFailure(findings, flags.strict === true) ? 1 : 0;
}

async function readIngressLog(file: string): Promise<string> {
  const source = file === "-" ? process.stdin.setEncoding("utf8") : createReadStream(file, "utf8");
  return await readLog(source).catch((cause: unknown) => {
    throw new SwitchbackError("input-invalid", `--ingress-log: ${describeError(cause)}`);
  });
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
    text: (wide) => ({ text: doctorText(findings, wide ? undefined : columns) }),
  };
}

type LogLine = (line: string) => void;

/** On a signal, stops the probe and removes its pod; a second signal ends the process at once. */
async function probe(
  client: KubeClient,
  facts: ClusterFacts,
  flags: DoctorFlags,
  log: LogLine,
): Promise<Fact<ProbeResult>> {
  const image = probeImage(facts, flags.image);
  if (image === undefined) {
    return notKnown(
      "probe-without-image",
      "no Deployment of Switchback to take the image from: set --image to any image with Node 18 or newer",
    );
  }
  const { plan, leftOut } = planProbe(facts);
  // Without permission to list Services, the load balancers are unknown.
  if (!facts.services.known) return facts.services;
  if (plan.dials.length === 0) return notKnown("nothing-to-probe", "no load balancer with a web port was found");
  if (leftOut.length > 0) log(`probe: too much for one probe, left out: ${leftOut.join(", ")}`);
  const abort = new AbortController();
  const stop = (signal: NodeJS.Signals): void => abort.abort(new Error(`${signal}: the probe was stopped`));
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    const { runProbe } = await import("#doctor/probe/run.ts");
    return await runProbe({ client, namespace: facts.probeNamespace, image, plan, log, signal: abort.signal });
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** The given image, which only needs Node, else the installed proxy's image, which nodes have already pulled. */
function probeImage(facts: ClusterFacts, image: string | undefined): ProbeImage | undefined {
  if (image !== undefined) return { image, pullPolicy: "IfNotPresent", plain: true };
  const installed = proxyDeployment(facts);
  return installed?.image === "" ? undefined : installed;
}
