import { CONFIGURATION_PATH, WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import type { TakeOutOptions, UninstallPart } from "#extras/extension-points.ts";
import type { Reason } from "#hostmap/types.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import type { RawWorkload } from "#lib/workloads/workload-state.ts";
import { tryRestart } from "../try-restart.ts";
import { type AddressHolder, type Installation, readHolders, readInstallation } from "./installation.ts";

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
/** Maximum number of pods to name per workload; the others are only counted. */
const MAX_NAMES = 5;

/**
 * Prints what `releasePods` would do, and changes nothing. Throws `still-held` while pods hold Switchback's
 * addresses.
 */
export async function checkUninstall({ client, namespace, say, parts = [] }: UninstallOptions): Promise<void> {
  const install = await readInstallation(client, namespace, parts);
  const holders = await readHolders(client, install);
  for (const line of describePlan(holders, install, namespace)) say(line);
  const held = holders.filter(({ addresses }) => addresses.length > 0);
  if (held.length === 0) return;
  const risk = "and would connect to the next Service that gets one";
  throw new SwitchbackError("still-held", `${countPods(held)} of Switchback, ${risk}`);
}

/**
 * Frees the pods of a cluster from Switchback's addresses. First deletes the webhook configuration, because recreated
 * pods would be injected again. Then restarts the permitted workloads. Proxy and front Services serve until the last
 * pod is gone. If pods still hold an address, lists them and throws `still-held` unless `force` is set.
 */
export async function releasePods(options: UninstallOptions): Promise<void> {
  const { client, namespace, force, say, parts = [] } = options;
  const install = await readInstallation(client, namespace, parts);
  await deleteConfiguration(client);
  say(`the webhook configuration ${WEBHOOK_CONFIGURATION} is gone: new pods are no longer injected`);
  await pause(options.settleMs ?? SETTLE_MS);
  const held = await restartHolders(options, install);
  if (held.length > 0 && !force) {
    const message = `${countPods(held)} of Switchback: nothing more is removed. Recreate them and uninstall again`;
    throw new SwitchbackError("still-held", message);
  }
  const extraOptions = { ...options, sections: install.sections, canAsk: options.canAsk ?? false };
  for (const { takeOut } of parts) await takeOut?.(extraOptions);
  const others = await takeLastSteps(install, extraOptions, force);
  if (!force) await checkStillReleased(client, install);
  const holders = held.length > 0 ? countPods(held) : others.map((who) => `${who} hold addresses`).join(", ");
  say(
    holders === ""
      ? "no pod holds an address of Switchback"
      : `${holders} of Switchback; continuing because of --force`,
  );
}

/** Returns whether it existed. */
async function deleteConfiguration(client: KubeClient): Promise<boolean> {
  return (await ifFound(client.delete(CONFIGURATION_PATH).then(() => true))) === true;
}

/**
 * Waiting for pods and for the steps of extras takes minutes. Throws `still-held` if somebody has restored the webhook
 * configuration meanwhile, such as a tool that synchronizes manifests, or if a pod has got an address.
 */
async function checkStillReleased(client: KubeClient, install: Installation): Promise<void> {
  if (await deleteConfiguration(client)) {
    const what = `something has restored the webhook configuration ${WEBHOOK_CONFIGURATION}`;
    throw new SwitchbackError("still-held", `${what}: turn off what applies it, and uninstall again`);
  }
  const held = (await readHolders(client, install)).filter(({ addresses }) => addresses.length > 0);
  if (held.length === 0) return;
  const names = held.map(describe).join(", ");
  throw new SwitchbackError("still-held", `meanwhile ${countPods(held)} of Switchback: ${names}. Uninstall again`);
}

/** Restarts the permitted workloads, and waits for their old pods. Returns and prints what still holds addresses. */
async function restartHolders(options: UninstallOptions, install: Installation): Promise<AddressHolder[]> {
  const { client, say } = options;
  const reasons = new Map<string, Reason>();
  const restarted: AddressHolder[] = [];
  for (const holder of await readHolders(client, install)) {
    const key = workloadKey(holder);
    const against = whyNotRestarted(holder, install);
    const reason = against ?? (await restartHolder(client, holder));
    if (reason === undefined) restarted.push(holder);
    else reasons.set(key, reason);
    if (against === undefined) say(`${key}: ${reason?.text ?? "restarted"}`);
  }
  await waitForOldPods(options, install, restarted);
  const held = (await readHolders(client, install)).filter(({ addresses }) => addresses.length > 0);
  const old = "it was restarted, but its old pods are still there";
  if (held.length > 0) say("still held:");
  for (const holder of held) say(`  ${describe(holder)}: ${reasons.get(workloadKey(holder))?.text ?? old}`);
  return held;
}

/**
 * Why an uninstall does not restart a workload. If the workload holds addresses of Switchback, the uninstall then
 * cannot finish until a person has recreated its pods. Undefined if it is restarted.
 */
function whyNotRestarted(
  { kind, namespace, restartable }: AddressHolder,
  { restartNamespaces }: Installation,
): Reason | undefined {
  if (kind === "Pod") return { code: "not-restartable", text: "nothing recreates it: delete it" };
  if (!restartable) return { code: "not-restartable", text: `a ${kind} is not restarted: delete its pods` };
  if (restartNamespaces.has(namespace)) return undefined;
  return {
    code: "restart-not-permitted",
    text: `${namespace} is not in restart.namespaces or optIn.namespaces: restart it`,
  };
}

/** Restarts a workload. Returns undefined if it is restarted or gone: its pods are deleted with it. Else why not. */
async function restartHolder(client: KubeClient, holder: AddressHolder): Promise<Reason | undefined> {
  const refuse = (_state: unknown, { spec }: RawWorkload): Reason | undefined => {
    const { hostAliases, dnsConfig } = spec?.template?.spec ?? {};
    const isHeld = (ip: string) => holder.addresses.includes(ip);
    const text = (field: string) => `its own template has them: take the ${field} out of its manifest`;
    if ((dnsConfig?.nameservers ?? []).some(isHeld)) return { code: "in-template", text: text("dnsConfig") };
    const isBaked = (hostAliases ?? []).some(({ ip }) => isHeld(ip));
    return isBaked ? { code: "in-template", text: text("hostAliases") } : undefined;
  };
  const reason = await tryRestart(client, holder, { fieldManager: "switchback-uninstall", refuse });
  return reason?.isGone ? undefined : reason;
}

/** Waits until the pods from before a restart are gone, or until the timeout. */
async function waitForOldPods(
  { client, timeoutMs, now, say }: UninstallOptions,
  install: Installation,
  restarted: readonly AddressHolder[],
): Promise<void> {
  let waiting = restarted;
  let said = now();
  const look = async () => {
    const left = new Set<string>();
    for (const namespace of new Set(waiting.map((holder) => holder.namespace)))
      for (const holder of await readHolders(client, install, namespace)) left.add(workloadKey(holder));
    waiting = waiting.filter((holder) => left.has(workloadKey(holder)));
    return { missing: waiting.map(workloadKey).join(", ") || undefined };
  };
  const report = (missing: string) => {
    if (now() - said < SAY_MS) return;
    said = now();
    say(`waiting for the old pods of ${missing}`);
  };
  await waitForRestart(look, { now, pollMs: POLL_MS, timeoutMs, report });
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

/** Describes what an uninstall would do, in order. */
function describePlan(holders: readonly AddressHolder[], install: Installation, namespace: string): string[] {
  const fronts = [...install.addresses].map(([address, service]) => `${address} (${service})`);
  const found = holders.map((holder) => ({ holder, reason: whyNotRestarted(holder, install) }));
  const restarted = found.filter(({ reason }) => reason === undefined).map(({ holder }) => `     ${describe(holder)}`);
  const stuck = found.flatMap(({ holder, reason }) =>
    reason === undefined || holder.addresses.length === 0 ? [] : `     ${describe(holder)}: ${reason.text}`,
  );
  const steps = install.lastSteps.map(({ plan }) => plan);
  const last = "The controller stops. What it has created is deleted: front Services, map, certificates and Lease.";
  return [
    `Addresses that the uninstall frees: ${fronts.join(", ") || "none"}`,
    `1. The webhook configuration ${WEBHOOK_CONFIGURATION} is deleted: new pods are no longer injected.`,
    `2. These are restarted:${restarted.length === 0 ? " none" : ""}`,
    ...restarted,
    ...(stuck.length === 0 ? [] : ["   These hold addresses of Switchback, and you have to recreate them:"]),
    ...stuck,
    ...[...steps, last].map((step, index) => `${index + 3}. ${step}`),
    `Left: what Helm or your manifests installed, and the namespace ${namespace}.`,
  ];
}

/** Counts pods, such as `3 pods hold addresses`. */
function countPods(held: readonly AddressHolder[]): string {
  const pods = held.reduce((sum, holder) => sum + holder.pods.length, 0);
  return pods === 1 ? "1 pod holds addresses" : `${pods} pods hold addresses`;
}

function describe(holder: AddressHolder): string {
  const { pods } = holder;
  if (holder.kind === "Pod") return workloadKey(holder);
  const more = pods.length > MAX_NAMES ? `, and ${pods.length - MAX_NAMES} more` : "";
  return `${workloadKey(holder)} (${pods.slice(0, MAX_NAMES).join(", ")}${more})`;
}
