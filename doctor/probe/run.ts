import { randomBytes } from "node:crypto";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import { parse } from "#lib/errors/validation.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { corePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import { type Fact, known, notKnown, permissionMissing } from "../fact.ts";
import { PROBE_SECONDS, type ProbeImage, probePod } from "./pod.ts";
import { type ProbePlan, type ProbeResult, resultSchema } from "./result.ts";

export interface ProbeOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly image: ProbeImage;
  readonly plan: ProbePlan;
  /** Receives progress messages. */
  readonly log: (line: string) => void;
  /** Ends the probe early; the pod is still removed. */
  readonly signal: AbortSignal;
}

const POLL_MS = 500;
const MAX_LOG_BYTES = 4 * 1024 * 1024;
/** Waiting reasons of a container that cannot start. */
const START_FAILURES: ReadonlySet<string> = new Set([
  "ErrImagePull",
  "ImagePullBackOff",
  "ErrImageNeverPull",
  "InvalidImageName",
  "CreateContainerConfigError",
  "CreateContainerError",
  "RunContainerError",
]);

/**
 * Runs a plan in a pod and always removes the pod. This function generates the pod's name, so it
 * can remove the pod even if the response to its creation was lost. A failure is an unknown fact.
 * Throws only if aborted.
 */
export async function runProbe(options: ProbeOptions): Promise<Fact<ProbeResult>> {
  const { client, namespace, log, signal } = options;
  const name = `switchback-doctor-${randomBytes(5).toString("hex")}`;
  log(`probe: creating pod ${namespace}/${name} (image ${options.image.image})`);
  try {
    return await runPod(name, options);
  } catch (error) {
    signal.throwIfAborted();
    const refused = statusOf(error) === 403 && /cannot create resource/.test(describeError(error));
    if (refused) return permissionMissing({ verb: "create", resource: "pods", namespace });
    return notKnown("probe-failed", describeError(error));
  } finally {
    await remove(client, namespace, name, log);
  }
}

async function runPod(name: string, options: ProbeOptions): Promise<Fact<ProbeResult>> {
  const { client, namespace, log, signal } = options;
  await create(name, options);
  const ended = await untilEnded(name, options);
  if (!ended.known) return ended;
  log("probe: reading the result");
  const { text } = await client.raw(`${corePath("pods", namespace, name)}/log`, { signal, maxBytes: MAX_LOG_BYTES });
  if (ended.value === "Failed")
    return notKnown("probe-failed", `the probe pod failed: ${text.trim().slice(-500) || "no output"}`);
  return parseResult(text);
}

/** Creates the pod. If OpenShift refuses the user's number, the pod sets none, and OpenShift assigns one. */
async function create(name: string, { client, namespace, image, plan, signal }: ProbeOptions): Promise<void> {
  const post = (pod: object) => client.create(corePath("pods", namespace), pod, { signal });
  try {
    await post(probePod(name, image, plan));
  } catch (error) {
    const isOpenShift = statusOf(error) === 403 && /security context constraint/.test(describeError(error));
    if (!isOpenShift) throw error;
    await post(probePod(name, image, plan, {}));
  }
}

interface RawPod {
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly conditions?: readonly { type: string; status: string; message?: string }[];
    readonly containerStatuses?: readonly {
      readonly state?: {
        readonly waiting?: { reason?: string; message?: string };
        readonly terminated?: { reason?: string; message?: string };
      };
    }[];
  };
}

async function untilEnded(
  name: string,
  { client, namespace, log, signal }: ProbeOptions,
): Promise<Fact<"Succeeded" | "Failed">> {
  const deadline = performance.now() + PROBE_SECONDS * 1000;
  let reported = "";
  for (let last = "nothing"; ; await pause(POLL_MS, signal)) {
    const { status = {} } = await client.get<RawPod>(corePath("pods", namespace, name), {}, { signal });
    const { phase = "Pending" } = status;
    const ended = endOf(status);
    if (ended !== undefined) return ended;
    const waiting = status.containerStatuses?.[0]?.state?.waiting;
    const unscheduled = status.conditions?.find(({ type, status: is }) => type === "PodScheduled" && is === "False");
    last = [phase, waiting?.reason, waiting?.message ?? unscheduled?.message].filter(Boolean).join(", ");
    if (START_FAILURES.has(waiting?.reason ?? ""))
      return notKnown("probe-not-started", `the probe pod cannot start: ${last}`);
    if (performance.now() > deadline)
      return notKnown("probe-timeout", `the probe pod did not end within ${PROBE_SECONDS} s: ${last}`);
    if (phase !== reported) log(`probe: ${phase.toLowerCase()}`);
    reported = phase;
  }
}

/** The result of the ended pod; undefined while it runs. */
function endOf({
  phase,
  reason,
  containerStatuses,
}: RawPod["status"] & object): Fact<"Succeeded" | "Failed"> | undefined {
  if (reason === "DeadlineExceeded")
    return notKnown("probe-timeout", `the probe pod did not end within ${PROBE_SECONDS} s`);
  const terminated = containerStatuses?.[0]?.state?.terminated;
  // The image has no `node`, for example.
  if (/^(StartError|ContainerCannotRun)$/.test(terminated?.reason ?? ""))
    return notKnown("probe-not-started", `the probe pod cannot start: ${terminated?.message ?? terminated?.reason}`);
  return phase === "Succeeded" || phase === "Failed" ? known(phase) : undefined;
}

function parseResult(text: string): Fact<ProbeResult> {
  try {
    return known(parse(resultSchema, JSON.parse(text)));
  } catch {
    return notKnown(
      "probe-failed",
      `the probe pod's output is not valid for this version: ${text.trim().slice(0, 200)}`,
    );
  }
}

/** Ignores the signal: an abort ends the probe, but must not prevent the removal. */
async function remove(client: KubeClient, namespace: string, name: string, log: (line: string) => void): Promise<void> {
  try {
    await client.delete(corePath("pods", namespace, name));
    log("probe: pod removed");
  } catch (error) {
    if (statusOf(error) === 404) return;
    log(
      `probe: cannot remove pod ${namespace}/${name} (${describeError(error)}); ` +
        `it ends by itself within ${PROBE_SECONDS} s`,
    );
  }
}
