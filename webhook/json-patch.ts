import type { Injection, ManagedAliases } from "../hostmap/inject.ts";
import type { HostAlias } from "../hostmap/types.ts";
import type { AdmittedPod } from "./admitted-pod.ts";

/** One operation of RFC 6902. */
type Operation =
  | { readonly op: "add"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

/**
 * How the pod's hostAliases change:
 * keep: not at all; fresh: there are none yet; append: ours go behind the user's; rewrite: an older block of ours is replaced.
 */
type Change = "keep" | "fresh" | "append" | "rewrite";

const ALIASES = pointer("spec", "hostAliases");
const ANNOTATIONS = pointer("metadata", "annotations");

/** The operations that make `pod` look as planned; none if it does already. */
export function patchOperations(pod: AdmittedPod, injection: Injection): readonly Operation[] {
  const change = changeOf(pod, injection);
  if (change === "keep" && annotated(pod, injection.managed)) return [];
  return [...aliasOperations(change, injection), ...annotationOperations(pod.hasAnnotations, injection.managed)];
}

/**
 * `patchOperations` as the API server takes it: JSON in base64, or undefined when there is nothing to do.
 * A patch that only depends on the block and on what the pod has is kept with the block, so pods that look alike share one.
 */
export function encodePatch(pod: AdmittedPod, injection: Injection): string | undefined {
  const change = changeOf(pod, injection);
  if (change === "keep" && annotated(pod, injection.managed)) return undefined;
  if (change === "rewrite") return encode(patchOperations(pod, injection));
  const shape = `${change} ${pod.hasAnnotations}`;
  const patches = patchesOf(injection.managed);
  let patch = patches.get(shape);
  if (patch === undefined) {
    patch = encode(patchOperations(pod, injection));
    patches.set(shape, patch);
  }
  return patch;
}

/** RFC 6901: `~` and `/` have to be escaped. */
export function pointer(...segments: readonly string[]): string {
  return segments.map((segment) => `/${segment.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

const encoded = new WeakMap<ManagedAliases, Map<string, string>>();

function patchesOf(block: ManagedAliases): Map<string, string> {
  let patches = encoded.get(block);
  if (patches === undefined) {
    patches = new Map();
    encoded.set(block, patches);
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
  return hostAliases.length === 0 ? "fresh" : "append";
}

function aliasOperations(change: Change, { userAliases, managed }: Injection): Operation[] {
  if (change === "keep") return [];
  // One at a time, so that the user's are not even mentioned.
  if (change === "append") return managed.aliases.map((value) => ({ op: "add", path: `${ALIASES}/-`, value }));
  const all = [...userAliases, ...managed.aliases];
  return all.length === 0 ? [{ op: "remove", path: ALIASES }] : [{ op: "add", path: ALIASES, value: all }];
}

/** `add` replaces a member that is there already (RFC 6902, 4.1), so a forged annotation and a missing one need the same. */
function annotationOperations(hasAnnotations: boolean, { annotations }: ManagedAliases): Operation[] {
  if (!hasAnnotations) return [{ op: "add", path: ANNOTATIONS, value: annotations }];
  return Object.entries(annotations).map(([key, value]) => ({
    op: "add",
    path: `${ANNOTATIONS}${pointer(key)}`,
    value,
  }));
}

function annotated(pod: AdmittedPod, { annotations }: ManagedAliases): boolean {
  return Object.entries(annotations).every(([key, value]) => pod.annotations[key] === value);
}

function sameAliases(left: readonly HostAlias[], right: readonly HostAlias[]): boolean {
  return JSON.stringify(left) === JSON.stringify(right);
}
