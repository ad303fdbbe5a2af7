import type { Injection } from "#hostmap/inject.ts";
import { INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import { getOrAdd } from "#hostmap/multi-map.ts";
import type { AdmittedPod } from "./admitted-pod.ts";

/** One operation of RFC 6902. */
export type Operation =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

const ALIASES = pointer("spec", "hostAliases");
const ANNOTATIONS = pointer("metadata", "annotations");
const LABELS = pointer("metadata", "labels");
const MANAGED_LABELS: Readonly<Record<string, string>> = { [INJECTED_KEY]: "true" };

/** The patches that contain nothing of a pod, by what the pod gets, and by what it has. */
const shared = new WeakMap<Injection["managed"], Map<string, readonly Operation[]>>();

/**
 * Returns the operations that give `pod` the planned aliases and annotations, and the label. `more`: changes for pod
 * DNS. Most pods share a patch, so it is built and encoded once.
 */
export function patchOperations(
  pod: AdmittedPod,
  injection: Injection,
  more: readonly Operation[] = [],
): readonly Operation[] {
  const build = (): readonly Operation[] => [
    ...aliasOperations(pod, injection),
    ...more,
    ...addOperations(ANNOTATIONS, pod.hasAnnotations, injection.managed.annotations),
    ...addOperations(LABELS, pod.hasLabels, MANAGED_LABELS),
  ];
  if (more.length > 0 || pod.hostAliases.length > injection.userAliases.length) return build();
  const patches = getOrAdd(shared, injection.managed, () => new Map<string, readonly Operation[]>());
  return getOrAdd(patches, `${pod.hostAliases.length > 0} ${pod.hasAnnotations} ${pod.hasLabels}`, build);
}

/** Builds a JSON pointer (RFC 6901): `~` and `/` must be escaped. */
export function pointer(...segments: readonly string[]): string {
  return segments.map((segment) => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

function aliasOperations({ hostAliases }: AdmittedPod, { userAliases, managed }: Injection): readonly Operation[] {
  const all = [...userAliases, ...managed.aliases];
  // Only ours are missing: one operation for each, so that the patch does not contain the user's.
  if (hostAliases.length > 0 && hostAliases.length === userAliases.length)
    return managed.aliases.map((value) => ({ op: "add", path: `${ALIASES}/-`, value }));
  if (all.length > 0) return [{ op: "add", path: ALIASES, value: all }];
  return hostAliases.length > 0 ? [{ op: "remove", path: ALIASES }] : [];
}

/** `add` replaces an existing member (RFC 6902, 4.1), so forged and missing ones need the same operation. */
function addOperations(path: string, hasMap: boolean, entries: Readonly<Record<string, string>>): Operation[] {
  if (!hasMap) return [{ op: "add", path, value: entries }];
  return Object.entries(entries).map(([key, value]) => ({ op: "add", path: `${path}${pointer(key)}`, value }));
}
