import { randomBytes } from "node:crypto";
import { describeError, statusOf } from "../../errors/errors.ts";
import type { KubeClient } from "../../kube/client.ts";
import { corePath } from "../../kube/paths.ts";
import { pause } from "../../kube/time.ts";
import { type Known, known, notKnown, rightMissing } from "../known.ts";
import { PROBE_SECONDS, type ProbeImage, probePod } from "./pod.ts";
import { type ProbePlan, type ProbeResult, resultSchema } from "./result.ts";

interface ProbeOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly image: ProbeImage;
  readonly plan: ProbePlan;
  /** Told what is going on, a line each. */
  readonly log: (line: string) => void;
  /** Ends the probe early; the pod is removed all the same. */
  readonly signal: AbortSignal;
}

const POLL_MS = 500;
const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** What a kubelet says of a container that will not start by itself. */
const HOPELESS =
  /^(ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|CreateContainerConfigError|CreateContainerError|RunContainerError)$/;

/**
 * Runs a plan in a pod of its own and removes the pod, whatever happens. The name is chosen here and not by the API server, so that the
 * pod can be removed even where the answer to its creation never came. A failure is a fact; only an abort is thrown.
 */
export async function runProbe(options: ProbeOptions): Promise<Known<ProbeResult>> {
  const { client, namespace, log, signal } = options;
  const name = `switchback-doctor-${randomBytes(5).toString("hex")}`;
  log(`probe: making the pod ${namespace}/${name} (${options.image.image})`);
  try {
    return await carryOut(name, options);
  } catch (error) {
    signal.throwIfAborted();
    const refused = statusOf(error) === 403 && /cannot create resource/.test(describeError(error));
    if (refused) return rightMissing({ verb: "create", resource: "pods", namespace });
    return notKnown("probe-failed", describeError(error));
  } finally {
    await remove(client, namespace, name, log);
  }
}

async function carryOut(name: string, options: ProbeOptions): Promise<Known<ProbeResult>> {
  const { client, namespace, image, plan, log, signal } = options;
  await client.create(corePath("pods", namespace), probePod(name, image, plan), { signal });
  const ended = await untilEnded(name, options);
  if (!ended.known) return ended;
  log("probe: reading what it found");
  const { text } = await client.raw(`${corePath("pods", namespace, name)}/log`, { signal, maxBytes: MAX_LOG_BYTES });
  if (ended.value === "Failed")
    return notKnown("probe-failed", `the probe pod failed: ${text.trim().slice(-500) || "it said nothing"}`);
  return parseResult(text);
}

interface RawPod {
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly { type: string; status: string; message?: string }[];
    readonly containerStatuses?: readonly {
      readonly state?: { readonly waiting?: { reason?: string; message?: string } };
    }[];
  };
}

async function untilEnded(
  name: string,
  { client, namespace, log, signal }: ProbeOptions,
): Promise<Known<"Succeeded" | "Failed">> {
  const deadline = performance.now() + PROBE_SECONDS * 1000;
  let said = "";
  for (let last = "nothing"; ; await pause(POLL_MS, signal)) {
    const { status = {} } = await client.get<RawPod>(corePath("pods", namespace, name), {}, { signal });
    const { phase = "Pending", reason } = status;
    if (reason === "DeadlineExceeded")
      return notKnown("probe-timeout", `the probe pod did not end within ${PROBE_SECONDS} s`);
    if (phase === "Succeeded" || phase === "Failed") return known(phase);
    const waiting = status.containerStatuses?.[0]?.state?.waiting;
    const unscheduled = status.conditions?.find(({ type, status: is }) => type === "PodScheduled" && is === "False");
    last = [phase, waiting?.reason, waiting?.message ?? unscheduled?.message].filter(Boolean).join(", ");
    if (HOPELESS.test(waiting?.reason ?? ""))
      return notKnown("probe-not-started", `the probe pod does not start: ${last}`);
    if (performance.now() > deadline)
      return notKnown("probe-timeout", `the probe pod did not end within ${PROBE_SECONDS} s: ${last}`);
    if (phase !== said) log(`probe: ${phase.toLowerCase()}`);
    said = phase;
  }
}

function parseResult(text: string): Known<ProbeResult> {
  try {
    return known(resultSchema.parse(JSON.parse(text)));
  } catch {
    return notKnown(
      "probe-unreadable",
      `the probe pod's answer is not one of this version's: ${text.trim().slice(0, 200)}`,
    );
  }
}

/** With a deadline of its own: the signal that may have ended the probe must not end this. */
async function remove(client: KubeClient, namespace: string, name: string, log: (line: string) => void): Promise<void> {
  try {
    await client.delete(corePath("pods", namespace, name));
    log("probe: the pod is removed");
  } catch (error) {
    if (statusOf(error) === 404) return;
    log(
      `probe: the pod ${namespace}/${name} could not be removed (${describeError(error)}); it ends by itself within ${PROBE_SECONDS} s`,
    );
  }
}
