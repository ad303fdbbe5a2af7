import { examine } from "../doctor/checks.ts";
import type { ClusterFacts } from "../doctor/facts.ts";
import { worstOf } from "../doctor/findings.ts";
import { gather } from "../doctor/gather.ts";
import { type Known, notKnown } from "../doctor/known.ts";
import { planProbe } from "../doctor/probe/plan.ts";
import type { ProbeImage } from "../doctor/probe/pod.ts";
import type { ProbeResult } from "../doctor/probe/result.ts";
import { runProbe } from "../doctor/probe/run.ts";
import { reportDocument, reportText } from "../doctor/report.ts";
import type { KubeClient } from "../kube/client.ts";
import { connect, connectOptionsFrom } from "../kube/connect.ts";
import type { CliContext } from "./context.ts";

interface DoctorFlags {
  readonly namespace: string;
  readonly probe?: boolean;
  readonly probeNamespace: string;
  readonly image?: string;
  readonly output: "text" | "json";
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** Looks at a cluster with the caller's own rights and says how things stand. Gives the exit code: 1 when something is broken. */
export async function doctor(flags: DoctorFlags, { env, stdout, stderr }: CliContext): Promise<number> {
  const client = await connect({ ...connectOptionsFrom(env, flags), userAgent: "switchback-doctor" });
  const say = (line: string): void => void stderr.write(`${line}\n`);
  try {
    say(`looking at ${client.server}`);
    const facts = await gather({ client, ...flags, now: Date.now });
    const findings = examine({ ...facts, probe: flags.probe ? await probe(client, facts, flags, say) : undefined });
    stdout.write(
      flags.output === "json" ? `${JSON.stringify(reportDocument(findings), null, 2)}\n` : reportText(findings),
    );
    return worstOf(findings) === "broken" ? 1 : 0;
  } finally {
    client.close();
  }
}

type Say = (line: string) => void;

/** A signal ends the probe and removes its pod; a second one ends the process at once. */
async function probe(
  client: KubeClient,
  facts: ClusterFacts,
  flags: DoctorFlags,
  say: Say,
): Promise<Known<ProbeResult>> {
  const image = probeImage(facts, flags.image);
  if (image === undefined) {
    return notKnown(
      "probe-without-image",
      "no Deployment of Switchback is there to take the image from: give one with --image",
    );
  }
  const plan = planProbe(facts);
  if (plan.dials.length === 0) return notKnown("nothing-to-probe", "no load balancer with a web port was found");
  const abort = new AbortController();
  const stop = (signal: NodeJS.Signals): void => abort.abort(new Error(`${signal}: the probe was ended`));
  for (const signal of SIGNALS) process.once(signal, stop);
  try {
    return await runProbe({ client, namespace: facts.probeNamespace, image, plan, say, signal: abort.signal });
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop);
  }
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;

/** The installed one: the nodes have it already. */
function probeImage({ install }: ClusterFacts, image: string | undefined): ProbeImage | undefined {
  if (image !== undefined) return { image, pullPolicy: "IfNotPresent" };
  const deployments = install.deployments.known ? install.deployments.value : [];
  return deployments.find(({ name, image: of }) => name === "switchback-proxy" && of !== "");
}
