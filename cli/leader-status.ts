import type { RolloutStatus } from "../controller/rollout/rollout-status.ts";
import type { StatusDocument } from "../controller/status.ts";
import { SwitchbackError, statusOf } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { serviceProxyPath } from "../kube/paths.ts";
import { pause } from "../kube/time.ts";

/** The controller's `/status`, as far as the command line shows it. */
export type FullStatus = StatusDocument & { readonly running?: RolloutStatus };

const SERVICE = { name: "switchback-controller", port: "http" };
/** The API server picks any replica for each request, and one of them leads. */
const TRIES = 20;
const AGAIN_MS = 100;

/**
 * What the leading controller knows, asked through the API server. Where no replica that leads answers (none does, for a moment after
 * the last one ended), the view of a follower, which has names and no workloads. Throws `input-invalid` if there is no controller.
 */
export async function leaderStatus(client: KubeClient, namespace: string, signal?: AbortSignal): Promise<FullStatus> {
  let status: FullStatus | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    if (tries > 0) await pause(AGAIN_MS, signal);
    status = await read(client, namespace, signal);
    if (status.leader) break;
  }
  if (status === undefined) throw new SwitchbackError("data-corrupt", "the controller has said nothing");
  return status;
}

async function read(client: KubeClient, namespace: string, signal?: AbortSignal): Promise<FullStatus> {
  const path = serviceProxyPath(namespace, SERVICE, "/status");
  try {
    return JSON.parse((await client.raw(path, signal && { signal })).text) as FullStatus;
  } catch (error) {
    if (error instanceof SyntaxError) throw new SwitchbackError("data-corrupt", `GET ${path}: the answer is not JSON`);
    if (statusOf(error) !== 404) throw error;
    const message = `there is no Service ${SERVICE.name} in the namespace ${namespace}; is Switchback installed there? (--namespace)`;
    throw new SwitchbackError("input-invalid", message);
  }
}
