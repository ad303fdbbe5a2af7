import { WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import type { TakeOutOptions, UninstallPart } from "#extras/extension-points.ts";
import type { Reason } from "#hostmap/types.ts";
import { SwitchbackError, statusOf } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import { pause } from "#lib/kube/time.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import type { AddressHolder } from "./address-holders.ts";
import { type Installation, readHolders, readInstallation } from "./installation.ts";
import { planUninstall } from "./plan.ts";
import { countPods, describePlan, refusal } from "./report.ts";
import { restartHolder } from "./restart-holder.ts";

export interface UninstallOptions {
  readonly client: KubeClient;
  /** The namespace of Switchback. */
  readonly namespace: string;
  /** Whether to continue although pods hold Switchback's addresses. */
  readonly force: boolean;
  /** Timeout for the restarted workloads, in milliseconds. */
  readonly timeoutMs: number;
  /** Returns the current time, in milliseconds since 1970. */
  readonly now: () => number;
  /** Prints a line for a person. */
  readonly say: (line: string) => void;
  /**
   * How long API servers may still call a webhook whose configuration is gone, in milliseconds; shorter only in
   * tests.
   */
  readonly settleMs?: number;
  /** Whether this process resolves names as the cluster's pods do. Default: no. */
  readonly canAsk?: boolean;
  /** The steps of extras. */
  readonly parts?: readonly UninstallPart[];
}

/** A watch event takes far less. A pod that is created in this time would be injected again. */
const SETTLE_MS = 2_000;
const POLL_MS = 2_000;
const SAY_MS = 10_000;

/**
 * Prints what `releasePods` would do, and changes nothing. Throws `still-held` while pods hold Switchback's
 * addresses.
 */
export async function checkUninstall({ client, namespace, say, parts = [] }: UninstallOptions): Promise<void> {
  const install = await readInstallation(client, namespace, parts);
  const holders = await readHolders(client, install);
  for (const line of describePlan(planUninstall(holders, install), install, namespace)) say(line);
  const held = holders.filter(({ addresses }) => addresses.length > 0);
  if (held.length === 0) return;
  throw new SwitchbackError(
    "still-held",
    `${countPods(held)} of Switchback, and would connect to the next Service that gets one`,
  );
}

/**
 * Frees the pods of a cluster from Switchback's addresses. First deletes the webhook configuration, because recreated
 * pods would be injected again. Then restarts the permitted workloads. Proxy and front Services serve until the last
 * pod is gone. If pods still hold an address, lists them and throws `still-held` unless `force` is set.
 */
export async function releasePods(options: UninstallOptions): Promise<void> {
  const { client, namespace, force, say, parts = [] } = options;
  const install = await readInstallation(client, namespace, parts);
  await deleteWebhookConfiguration(client);
  say(`the webhook configuration ${WEBHOOK_CONFIGURATION} is gone: new pods are no longer injected`);
  await pause(options.settleMs ?? SETTLE_MS);
  const plan = planUninstall(await readHolders(client, install), install);
  const reasons = new Map<string, Reason>(plan.stuck.map(({ holder, reason }) => [workloadKey(holder), reason]));
  const restarted: AddressHolder[] = [];
  for (const holder of plan.restart) {
    const reason = await restartHolder(client, holder, new Date(options.now()).toISOString());
    if (reason === undefined) restarted.push(holder);
    else reasons.set(workloadKey(holder), reason);
    say(`${workloadKey(holder)}: ${reason === undefined ? "restarted" : reason.text}`);
  }
  await waitForOldPods(options, install, restarted);
  const held = (await readHolders(client, install)).filter(({ addresses }) => addresses.length > 0);
  for (const line of refusal(held, reasons)) say(line);
  if (held.length > 0 && !force) {
    const message = `${countPods(held)} of Switchback: nothing more is removed. Recreate them and uninstall again`;
    throw new SwitchbackError("still-held", message);
  }
  const extraOptions = { ...options, sections: install.sections, canAsk: options.canAsk ?? false };
  for (const { takeOut } of parts) await takeOut?.(extraOptions);
  const others = await takeLastSteps(install, extraOptions, force);
  const holders = held.length > 0 ? countPods(held) : others.map((who) => `${who} hold addresses`).join(", ");
  say(
    holders === ""
      ? "no pod holds an address of Switchback"
      : `${holders} of Switchback; continuing because of --force`,
  );
}

/** Takes the last steps of extras. Returns what still holds addresses; throws `still-held` for it without `force`. */
async function takeLastSteps(install: Installation, options: TakeOutOptions, force: boolean): Promise<string[]> {
  const holding: string[] = [];
  for (const { run } of install.lastSteps) {
    const left = await run(options);
    if (left !== undefined && !force) throw new SwitchbackError("still-held", `${left.text}. Uninstall again`);
    if (left !== undefined) holding.push(left.who);
  }
  return holding;
}

async function deleteWebhookConfiguration(client: KubeClient): Promise<void> {
  const resource = "mutatingwebhookconfigurations";
  const group = "admissionregistration.k8s.io";
  try {
    await client.delete(resourcePath({ group, version: "v1", resource, name: WEBHOOK_CONFIGURATION }));
  } catch (error) {
    if (statusOf(error) !== 404) throw error;
  }
}

/**
 * Waits until the pods from before a restart are gone, or until the timeout. The caller then lists the remaining
 * pods.
 */
async function waitForOldPods(
  { client, timeoutMs, now, say }: UninstallOptions,
  install: Installation,
  restarted: readonly AddressHolder[],
): Promise<void> {
  let waiting = restarted;
  let said = now();
  const look = async () => {
    const left: AddressHolder[] = [];
    for (const namespace of new Set(waiting.map((holder) => holder.namespace)))
      left.push(...(await readHolders(client, install, namespace)));
    const keys = new Set(left.map(workloadKey));
    waiting = waiting.filter((holder) => keys.has(workloadKey(holder)));
    return { missing: waiting.map(workloadKey).join(", ") || undefined };
  };
  const report = (missing: string) => {
    if (now() - said < SAY_MS) return;
    said = now();
    say(`waiting for the old pods of ${missing}`);
  };
  await waitForRestart(look, { now, pollMs: POLL_MS, timeoutMs, report });
}
