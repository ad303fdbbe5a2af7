import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { readAndRestart } from "#lib/workloads/restart.ts";
import type { RawWorkload } from "#lib/workloads/workload-state.ts";
import type { AddressHolder } from "./address-holders.ts";

const FIELD_MANAGER = "switchback-uninstall";

/**
 * Restarts a Deployment, StatefulSet or DaemonSet. `at` is the time in RFC 3339. Returns undefined if it is restarted
 * or gone, else why it cannot be restarted, or why a restart would not help.
 */
export async function restartHolder(
  client: KubeClient,
  { namespace, kind, name, addresses }: AddressHolder,
  at: string,
): Promise<Reason | undefined> {
  try {
    const outcome = await readAndRestart(
      client,
      { namespace, kind, name },
      { stamp: () => at, fieldManager: FIELD_MANAGER, refuse: (_, raw) => inTemplate(raw, addresses) },
    );
    // If a workload is gone, its pods are deleted with it.
    if (outcome.result === "restarted" || outcome.result === "gone") return undefined;
    return outcome.result === "refused" ? outcome.reason : failed(outcome.error);
  } catch (error) {
    return statusOf(error) === 404 ? undefined : failed(error);
  }
}

function inTemplate({ spec }: RawWorkload, addresses: readonly string[]): Reason | undefined {
  const { hostAliases, dnsConfig } = spec?.template?.spec ?? {};
  if ((dnsConfig?.nameservers ?? []).some((ip) => addresses.includes(ip))) {
    return { code: "in-template", text: "its own template has them: take the dnsConfig out of its manifest" };
  }
  if (!(hostAliases ?? []).some(({ ip }) => addresses.includes(ip))) return undefined;
  return { code: "in-template", text: "its own template has them: take the hostAliases out of its manifest" };
}

function failed(error: unknown): Reason {
  return { code: "restart-failed", text: `it could not be restarted: ${describeError(error)}` };
}
