import type { Injection, ManagedAliases } from "#hostmap/inject.ts";
import { INJECTED_KEY, OWNED_KEY } from "#hostmap/metadata-keys.ts";
import type { HostAlias } from "#hostmap/types.ts";
import type { AdmittedPod } from "./admitted-pod.ts";

/** One operation of RFC 6902. */
export type Operation =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

const ALIASES = pointer("spec", "hostAliases");
const ANNOTATIONS = pointer("metadata", "annotations");
const LABELS = pointer("metadata", "labels");
const MANAGED_LABELS: Readonly<Record<string, string>> = { [INJECTED_KEY]: "true" };

/**
 * Returns the operations that give `pod` the planned aliases and annotations, and the label. Empty if the pod already
 * has them. `more`: changes for pod DNS.
 */
export function patchOperations(
  pod: AdmittedPod,
  injection: Injection,
  more: readonly Operation[] = [],
): readonly Operation[] {
  const aliases = aliasOperations(pod, injection);
  if (aliases.length + more.length === 0 && hasManagedMetadata(pod, injection.managed)) return [];
  return [
    ...aliases,
    ...more,
    ...addOperations(ANNOTATIONS, pod.hasAnnotations, injection.managed.annotations),
    ...addOperations(LABELS, pod.hasLabels, MANAGED_LABELS),
  ];
}

/**
 * Encodes `patchOperations` for the API server: JSON in base64, or undefined if nothing changes. Pods that have
 * nothing of ours yet share the patch: encoding 500 names takes longer than all other work for a pod.
 */
export function encodePatch(pod: AdmittedPod, injection: Injection, more: readonly Operation[] = []) {
  if (more.length > 0 || pod.annotations[OWNED_KEY] !== undefined) return encode(patchOperations(pod, injection, more));
  const patches = sharedPatches.get(injection.managed) ?? new Map<string, string | undefined>();
  sharedPatches.set(injection.managed, patches);
  const key = `${pod.hostAliases.length > 0} ${pod.hasAnnotations} ${pod.hasLabels}`;
  const patch = patches.get(key) ?? encode(patchOperations(pod, injection));
  patches.set(key, patch);
  return patch;
}

/** By managed aliases, and by what else a shared patch depends on. */
const sharedPatches = new WeakMap<ManagedAliases, Map<string, string | undefined>>();

function encode(operations: readonly Operation[]): string | undefined {
  return operations.length === 0 ? undefined : Buffer.from(JSON.stringify(operations)).toString("base64");
}

/** Builds a JSON pointer (RFC 6901): `~` and `/` must be escaped. */
export function pointer(...segments: readonly string[]): string {
  return segments.map((segment) => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function aliasOperations({ hostAliases }: AdmittedPod, { userAliases, managed }: Injection): readonly Operation[] {
  const all = [...userAliases, ...managed.aliases];
  if (sameAliases(hostAliases, all)) return [];
  // Only ours are missing: one operation for each, so that the patch does not contain the user's.
  if (hostAliases.length > 0 && hostAliases.length === userAliases.length)
    return managed.aliases.map((value) => ({ op: "add", path: `${ALIASES}/-`, value }));
  return all.length === 0 ? [{ op: "remove", path: ALIASES }] : [{ op: "add", path: ALIASES, value: all }];
}

/** `add` replaces an existing member (RFC 6902, 4.1), so forged and missing ones need the same operation. */
function addOperations(path: string, hasMap: boolean, entries: Readonly<Record<string, string>>): Operation[] {
  if (!hasMap) return [{ op: "add", path, value: entries }];
  return Object.entries(entries).map(([key, value]) => ({ op: "add", path: `${path}${pointer(key)}`, value }));
}

function hasManagedMetadata(pod: AdmittedPod, { annotations }: ManagedAliases): boolean {
  const has = (those: Readonly<Record<string, string>>, wanted: Readonly<Record<string, string>>) =>
    Object.entries(wanted).every(([key, value]) => those[key] === value);
  return has(pod.annotations, annotations) && has(pod.labels, MANAGED_LABELS);
}

/** Compares without building a text of either list: a pod may have 3 MB of aliases. */
function sameAliases(left: readonly HostAlias[], right: readonly HostAlias[]): boolean {
  const isSame = (one: HostAlias, other: HostAlias | undefined) =>
    one.ip === other?.ip &&
    one.hostnames.length === other.hostnames.length &&
    one.hostnames.every((name, at) => name === other.hostnames[at]);
  return left.length === right.length && left.every((alias, at) => isSame(alias, right[at]));
}
