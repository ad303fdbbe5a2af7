import type { Injection, ManagedAliases } from "#hostmap/inject.ts";
import { INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import type { HostAlias } from "#hostmap/types.ts";
import type { AdmittedPod } from "./admitted-pod.ts";

/** One operation of RFC 6902. */
export type Operation =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/**
 * How the pod's hostAliases change. keep: not at all; create: the pod has none yet; append: the managed aliases
 * follow the user's; rewrite: managed aliases of an earlier pass are replaced.
 */
type Change = "keep" | "create" | "append" | "rewrite";

const ALIASES = pointer("spec", "hostAliases");
const ANNOTATIONS = pointer("metadata", "annotations");
const LABELS = pointer("metadata", "labels");
const MANAGED_LABELS: Readonly<Record<string, string>> = { [INJECTED_KEY]: "true" };

/**
 * Returns the operations that give `pod` the planned aliases and annotations, and the label. Empty if the pod already
 * has them. `more`: changes of the deliveries.
 */
export function patchOperations(
  pod: AdmittedPod,
  injection: Injection,
  more: readonly Operation[] = [],
): readonly Operation[] {
  const change = changeOf(pod, injection);
  if (change === "keep" && more.length === 0 && hasManagedMetadata(pod, injection.managed)) return [];
  return [
    ...aliasOperations(change, injection),
    ...more,
    ...addOperations(ANNOTATIONS, pod.hasAnnotations, injection.managed.annotations),
    ...addOperations(LABELS, pod.hasLabels, MANAGED_LABELS),
  ];
}

/**
 * Encodes `patchOperations` for the API server: JSON in base64, or undefined if there is nothing to change.
 * A patch that depends only on the managed aliases and the shape of the pod is cached, so that similar pods share it.
 */
export function encodePatch(
  pod: AdmittedPod,
  injection: Injection,
  more: readonly Operation[] = [],
): string | undefined {
  const change = changeOf(pod, injection);
  if (change === "rewrite" || more.length > 0) return encode(patchOperations(pod, injection, more));
  if (change === "keep" && hasManagedMetadata(pod, injection.managed)) return undefined;
  const shape = SHAPES[change] + (pod.hasAnnotations ? 2 : 0) + (pod.hasLabels ? 1 : 0);
  const patches = patchesOf(injection.managed);
  const patch = patches[shape] ?? encode(patchOperations(pod, injection));
  patches[shape] = patch;
  return patch;
}

/** Builds a JSON pointer (RFC 6901): `~` and `/` must be escaped. */
export function pointer(...segments: readonly string[]): string {
  return segments.map((segment) => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/** Encoded patches by managed aliases and shape of pod. */
const encodedPatches = new WeakMap<ManagedAliases, (string | undefined)[]>();

/**
 * The number of a pod's shape: one of these, plus 2 if it has annotations, plus 1 if it has labels. A text as key
 * would have to be built and hashed for each pod.
 */
const SHAPES = { keep: 0, create: 4, append: 8 } as const;

function patchesOf(managed: ManagedAliases): (string | undefined)[] {
  let patches = encodedPatches.get(managed);
  if (patches === undefined) {
    patches = [];
    encodedPatches.set(managed, patches);
  }
  return patches;
}

function encode(operations: readonly Operation[]): string {
  return Buffer.from(JSON.stringify(operations)).toString("base64");
}

function changeOf({ hostAliases }: AdmittedPod, { userAliases, managed }: Injection): Change {
  if (userAliases.length !== hostAliases.length)
    return sameAliases(hostAliases, [...userAliases, ...managed.aliases]) ? "keep" : "rewrite";
  if (managed.aliases.length === 0) return "keep";
  return hostAliases.length === 0 ? "create" : "append";
}

function aliasOperations(change: Change, { userAliases, managed }: Injection): Operation[] {
  if (change === "keep") return [];
  // One operation per alias, so that the patch does not contain the user's aliases.
  if (change === "append") return managed.aliases.map((value) => ({ op: "add", path: `${ALIASES}/-`, value }));
  const all = [...userAliases, ...managed.aliases];
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
