/** Every label and annotation of ours, in one place; docs, manifests and checks of users' files follow this table. */
export const PREFIX = "switchback.dev/";

/** Label of a Namespace (`enabled`) or Pod (`enabled`, `disabled`): the opt-in. */
export const INJECT_KEY = "switchback.dev/inject";
/** Annotation of a Pod: only these names. */
export const HOSTS_KEY = "switchback.dev/hosts";
/** Annotation of a Namespace, workload or Pod: how running pods follow changes. */
export const ON_CHANGE_KEY = "switchback.dev/on-change";
/** Annotation of an Ingress, Route or Gateway: its names are never mapped. */
export const IGNORE_KEY = "switchback.dev/ignore";
/** Written on a Pod: what `kubectl describe pod` shows. */
export const INJECTED_KEY = "switchback.dev/injected";
/** Written on a Pod: the hash of what it was given. */
export const REVISION_KEY = "switchback.dev/revision";
/** Written on a Pod: which hostAliases are ours. */
export const OWNED_KEY = "switchback.dev/owned";
/** Label of the ConfigMaps that hold the map. */
export const MAP_KEY = "switchback.dev/map";
/** Label of the front Services, with the target's name. */
export const TARGET_KEY = "switchback.dev/target";
/** Written on the index: a held removal, JSON. */
export const HOLD_KEY = "switchback.dev/hold";
/** Written on the index by `switchback confirm`: the id of the hold that may happen. */
export const CONFIRM_KEY = "switchback.dev/confirm";

/** What people may write on their objects: kind of metadata, and the accepted values (undefined: any that parses). */
export const USER_KEYS: Readonly<
  Record<string, { readonly on: "label" | "annotation"; readonly values?: readonly string[] }>
> = {
  [INJECT_KEY]: { on: "label", values: ["enabled", "disabled"] },
  [HOSTS_KEY]: { on: "annotation" },
  [ON_CHANGE_KEY]: { on: "annotation", values: ["restart", "live", "none"] },
  [IGNORE_KEY]: { on: "annotation", values: ["true", "false"] },
};

/** What Switchback itself writes on pods; found in a file it is an old output of `switchback inject`, and replaced. */
export const WRITTEN_KEYS: readonly string[] = [INJECTED_KEY, REVISION_KEY, OWNED_KEY];
