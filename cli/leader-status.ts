import type { RolloutStatus } from "../controller/rollout/rollout-status.ts";
import type { StatusDocument } from "../controller/status.ts";
import { SwitchbackError, statusOf } from "../errors/errors.ts";
import type { KubeClient } from "../kube/client.ts";
import { serviceProxyPath } from "../kube/paths.ts";
import { pause } from "../kube/time.ts";

/** The controller's `/status`, as far as the CLI prints it. */
export type FullStatus = StatusDocument & { readonly running?: RolloutStatus };

const SERVICE = { name: "switchback-controller", port: "http" };
/** The API server sends each request to any replica; only one leads. */
const TRIES = 20;
const RETRY_MS = 100;

/**
 * Reads the leading controller's status through the API server. If no leader answers (for a moment after the last one stopped there is
 * none), returns a follower's status, which has names and no workloads. Throws `input-invalid` if there is no controller.
 */
export async function leaderStatus(client: KubeClient, namespace: string, signal?: AbortSignal): Promise<FullStatus> {
  let status: FullStatus | undefined;
  for (let tries = 0; tries < TRIES; tries++) {
    if (tries > 0) await pause(RETRY_MS, signal);
    status = await read(client, namespace, signal);
    if (status.leader) break;
  }
  if (status === undefined) throw new SwitchbackError("data-corrupt", "no answer from the controller");
  return status;
}

async function read(client: KubeClient, namespace: string, signal?: AbortSignal): Promise<FullStatus> {
  const path = serviceProxyPath(namespace, SERVICE, "/status");
  try {
    return JSON.parse((await client.raw(path, signal && { signal })).text) as FullStatus;
  } catch (error) {
    if (error instanceof SyntaxError)
      throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not JSON`);
    if (statusOf(error) !== 404) throw error;
    const message = `Service ${SERVICE.name} not found in namespace ${namespace}; is Switchback installed there? (--namespace)`;
    throw new SwitchbackError("input-invalid", message);
  }
}
