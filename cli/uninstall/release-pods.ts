import { CONFIGURATION_PATH, WEBHOOK_CONFIGURATION } from "#certs/objects.ts";
import type { UninstallPart } from "#extras/uninstall-part.ts";
import { ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { pause } from "#lib/kube/time.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import type { RawWorkload } from "#lib/workloads/workload-state.ts";
import { tryRestart } from "../try-restart.ts";
import { type AddressHolder, type Installation, readHolders, readInstallation } from "./installation.ts";

export interface UninstallOptions {
  readonly client: KubeClient;
  /** The namespace of Switchback. */
  readonly namespace: string;
  /** Whether to continue although pods hold Switchback's addresses. */
  readonly force: boolean;
  /** Returns the milliseconds that are left for all waits together. */
  readonly timeLeft: () => number;
  /** Prints a line for a person. */
  readonly say: (line: string) => void;
  /** Whether this process resolves names as the cluster's pods do. */
  readonly canAsk: boolean;
  /** The parts of extras. */
  readonly parts: readonly UninstallPart[];
}

/**
 * How long API servers may still call a webhook whose configuration is gone. A watch event takes far less. A pod that
 * is created in this time would be injected again.
 */
const SETTLE_MS = 2_000;
/** Maximum number of pods to name per workload; the others are only counted. */
const MAX_NAMES = 5;

/**
 * Prints what an uninstall would do, and changes nothing. @returns what is wrong if pods hold Switchback's addresses.
 */
export async function showPlan({ client, namespace, say, parts }: UninstallOptions): Promise<string | undefined> {
  const install = await readInstallation(client, namespace, parts);
  const holders = await readHolders(client, install);
  const fronts = [...install.addresses].map(([address, service]) => `${address} (${service})`);
  const found = holders.map((holder) => ({ holder, reason: whyNotRestarted(holder, install) }));
  const restarted = found.filter(({ reason }) => reason === undefined);
  const stuck = found.filter(({ holder, reason }) => reason !== undefined && holdsAddresses(holder));
  const steps = install.steps.map(({ plan }) => plan);
  const last = "The controller stops. What it has created is deleted: front Services, map, certificates and Lease.";
  const lines = [
    `Addresses that the uninstall frees: ${fronts.join(", ") || "none"}`,
    `1. The webhook configuration ${WEBHOOK_CONFIGURATION} is deleted: new pods are no longer injected.`,
    `2. These are restarted:${restarted.length === 0 ? " none" : ""}`,
    ...restarted.map(({ holder }) => `     ${describe(holder)}`),
    ...(stuck.length === 0 ? [] : ["   These hold addresses of Switchback, and you have to recreate them:"]),
    ...stuck.map(({ holder, reason }) => `     ${describe(holder)}: ${reason}`),
    ...[...steps, last].map((step, index) => `${index + 3}. ${step}`),
    `Left: what Helm or your manifests installed, and the namespace ${namespace}.`,
  ];
  for (const line of lines) say(line);
  const held = holders.filter(holdsAddresses);
  if (held.length === 0) return undefined;
  return `${countPods(held)} of Switchback, and would connect to the next Service that gets one`;
}

/**
 * Frees the pods of a cluster from Switchback's addresses. First deletes the webhook configuration, because recreated
 * pods would be injected again. Then restarts the permitted workloads. Proxy and front Services serve until the last
 * pod is gone. If pods still hold an address, lists them and throws `still-held` unless `force` is set.
 */
export async function releasePods(options: UninstallOptions): Promise<void> {
  const { client, namespace, force, say, parts, timeLeft } = options;
  const install = await readInstallation(client, namespace, parts);
  await wasDeleted(client, CONFIGURATION_PATH);
  say(`the webhook configuration ${WEBHOOK_CONFIGURATION} is gone: new pods are no longer injected`);
  await pause(SETTLE_MS);
  const held = await restartHolders(options, install);
  if (held.length > 0 && !force)
    throw stillHeld(`${countPods(held)} of Switchback: nothing more is removed. Recreate them and uninstall again`);
  const left = held.length > 0 ? [`${countPods(held)} of Switchback`] : [];
  for (const { run } of install.steps) {
    const text = await run({ ...options, sections: install.sections, timeoutMs: timeLeft(), now: Date.now });
    if (text !== undefined && !force) throw stillHeld(`${text}. Uninstall again`);
    if (text !== undefined) left.push(text);
  }
  if (!force) await checkStillReleased(client, install);
  if (left.length === 0) say("no pod holds an address of Switchback");
  else say(`${left.join("; ")}; continuing because of --force`);
}

/**
 * Waiting for pods and for the steps of extras takes minutes. Throws `still-held` if somebody has restored the webhook
 * configuration meanwhile, such as a tool that synchronizes manifests, or if a pod has got an address.
 */
async function checkStillReleased(client: KubeClient, install: Installation): Promise<void> {
  const what = `something has restored the webhook configuration ${WEBHOOK_CONFIGURATION}`;
  if (await wasDeleted(client, CONFIGURATION_PATH))
    throw stillHeld(`${what}: turn off what applies it, and uninstall again`);
  const late = (await readHolders(client, install)).filter(holdsAddresses);
  const pods = `${countPods(late)} of Switchback: ${late.map(describe).join(", ")}`;
  if (late.length > 0) throw stillHeld(`meanwhile ${pods}. Uninstall again`);
}

/** Deletes an object. @returns whether it existed. */
export async function wasDeleted(client: KubeClient, path: string): Promise<boolean> {
  return (await ifFound(client.delete(path).then(() => true))) === true;
}

/**
 * Restarts the permitted workloads, and waits until their old pods are gone, or until no time is left. Returns and
 * prints what still holds addresses.
 */
async function restartHolders(
  { client, say, timeLeft }: UninstallOptions,
  install: Installation,
): Promise<AddressHolder[]> {
  /** Why workloads hold addresses at the end, by their keys. */
  const reasons = new Map<string, string>();
  const restarted: AddressHolder[] = [];
  for (const holder of await readHolders(client, install)) {
    const { key } = holder;
    const against = whyNotRestarted(holder, install);
    const reason = against ?? (await restartHolder(client, holder));
    if (reason === undefined) restarted.push(holder);
    reasons.set(key, reason ?? OLD_PODS);
    if (against === undefined) say(`${key}: ${reason ?? "restarted"}`);
  }
  const namespaces = new Set(restarted.map(({ namespace }) => namespace));
  const look = async () => {
    const left: string[] = [];
    for (const namespace of namespaces)
      for (const { key } of await readHolders(client, install, namespace))
        if (reasons.get(key) === OLD_PODS) left.push(key);
    return { missing: left.join(", ") || undefined };
  };
  const report = (missing: string) => say(`waiting for the old pods of ${missing}`);
  await waitForRestart(look, { timeoutMs: timeLeft(), report });
  const held = (await readHolders(client, install)).filter(holdsAddresses);
  if (held.length > 0) say("still held:");
  for (const holder of held) say(`  ${describe(holder)}: ${reasons.get(holder.key) ?? OLD_PODS}`);
  return held;
}

const OLD_PODS = "it was restarted, but its old pods are still there";

/**
 * Why an uninstall does not restart a workload. If the workload holds addresses of Switchback, the uninstall then
 * cannot finish until a person has recreated its pods. Undefined if it is restarted.
 */
function whyNotRestarted(
  { kind, namespace, unrestartable }: AddressHolder,
  { restartNamespaces }: Installation,
): string | undefined {
  if (kind === "Pod") return "nothing recreates it: delete it";
  if (unrestartable !== undefined) return `a ${kind} is not restarted: delete its pods`;
  if (restartNamespaces.has(namespace)) return undefined;
  return `${namespace} is not in restart.namespaces or optIn.namespaces: restart it`;
}

/** Restarts a workload. Returns undefined if it is restarted or gone: its pods are deleted with it. Else why not. */
async function restartHolder(client: KubeClient, holder: AddressHolder): Promise<string | undefined> {
  const refuse = (_state: unknown, { spec }: RawWorkload): string | undefined => {
    const { hostAliases, dnsConfig } = spec?.template?.spec ?? {};
    const own = { dnsConfig: dnsConfig?.nameservers, hostAliases: hostAliases?.map(({ ip }) => ip) };
    const held = Object.entries(own).find(([, ips]) => ips?.some((ip) => holder.addresses.includes(ip)));
    return held && `its own template has them: take the ${held[0]} out of its manifest`;
  };
  const refusal = await tryRestart(client, holder, { fieldManager: "switchback-uninstall", refuse });
  return refusal?.isGone ? undefined : refusal?.text;
}

function holdsAddresses({ addresses }: AddressHolder): boolean {
  return addresses.length > 0;
}

/** Counts pods, such as `3 pods hold addresses`. */
function countPods(held: readonly AddressHolder[]): string {
  const pods = held.reduce((sum, holder) => sum + holder.pods.length, 0);
  return pods === 1 ? "1 pod holds addresses" : `${pods} pods hold addresses`;
}

function describe({ kind, key, pods }: AddressHolder): string {
  return kind === "Pod" ? key : `${key} (${listSome(pods, MAX_NAMES, String)})`;
}

function stillHeld(text: string): SwitchbackError {
  return new SwitchbackError("still-held", text);
}
