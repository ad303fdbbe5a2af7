import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { groupOf } from "#lib/kube/paths.ts";

/** A place in a document: keys of maps, and indices of lists. */
export type Path = readonly (string | number)[];
/** A step into a map (a key), or into every item of a list. */
type Step = string | typeof EACH;
const EACH = Symbol("[*]");

/** Where objects of one kind have a pod template. */
export interface TemplatePath {
  readonly kind: string;
  /** Undefined: any group. */
  readonly group: string | undefined;
  /** The path from the object to the map with the pod's `metadata` and `spec`; [] for a Pod itself. */
  readonly path: readonly Step[];
  /**
   * Whether every object of the kind has a template there. An object of a user's own kind may refer to another object
   * instead.
   */
  readonly required: boolean;
}

/** A Kubernetes object within a document. */
export interface ManifestObject {
  readonly at: Path;
  readonly kind: string;
  readonly apiVersion: unknown;
  readonly value: unknown;
}

const TEMPLATE = ["spec", "template"];
/** Kubernetes' own kinds that hold pods. */
const KINDS: Readonly<Record<string, readonly string[]>> = {
  Pod: [],
  PodTemplate: ["template"],
  Deployment: TEMPLATE,
  StatefulSet: TEMPLATE,
  DaemonSet: TEMPLATE,
  ReplicaSet: TEMPLATE,
  ReplicationController: TEMPLATE,
  Job: TEMPLATE,
  CronJob: ["spec", "jobTemplate", "spec", "template"],
};
/** The groups of `KINDS`. In other groups it is a different kind, such as Volcano's Job. */
const GROUPS: readonly string[] = ["", "apps", "batch", "extensions"];

/**
 * Knative's API group. Its webhook rejects `hostAliases` by default (knative/serving, pkg/apis/config/features.go:
 * PodSpecHostAliases).
 */
const KNATIVE = "serving.knative.dev";

const ACCEPTED =
  "accepted is KIND[.GROUP]=PATH, such as Rollout.argoproj.io=spec.template or JobSet=spec.jobs[*].template";

/** Parses one `--template-path`. Throws `input-invalid`, with the accepted form. */
export function parseTemplatePath(flag: string): TemplatePath {
  const [, kind, group, path = ""] = /^([A-Za-z][A-Za-z0-9]*)(?:\.([a-z0-9.-]+))?=\.?(.*)$/.exec(flag) ?? [];
  const steps = path.split(".").flatMap((part): Step[] => {
    const [, key, each] = /^([A-Za-z0-9_-]+)(\[\*\])?$/.exec(part) ?? [];
    if (key === undefined) throw new SwitchbackError("input-invalid", `--template-path ${show(flag)}: ${ACCEPTED}`);
    return each === undefined ? [key] : [key, EACH];
  });
  if (kind === undefined) throw new SwitchbackError("input-invalid", `--template-path ${show(flag)}: ${ACCEPTED}`);
  return { kind, group, path: steps, required: false };
}

/**
 * The objects of a document, with lists unfolded. For a part that is not an object, only its path. The API server's
 * own lists state the kind of their items only by the kind of the list.
 */
export function objectsOf(value: unknown, at: Path = [], list?: ManifestObject): (ManifestObject | Path)[] {
  const { kind, apiVersion = list?.apiVersion, items } = Object(value);
  const ownKind: unknown = kind ?? list?.kind;
  if (typeof ownKind !== "string") return [at];
  const object = { at, kind: ownKind, apiVersion, value };
  if (!ownKind.endsWith("List") || !Array.isArray(items)) return [object];
  const ofItems = ownKind === "List" ? undefined : { ...object, kind: ownKind.slice(0, -"List".length) };
  return items.flatMap((item, index) => objectsOf(item, [...at, "items", index], ofItems));
}

/**
 * The places of the pod templates of an object, by the user's paths, else by the path of one of Kubernetes' own kinds.
 * A place without `[*]` is returned even if it does not exist. [] if no path is known.
 */
export function templatesOf(
  object: ManifestObject,
  users: readonly TemplatePath[],
): { readonly pod: Path; readonly required: boolean }[] {
  const { kind, apiVersion } = object;
  const group = groupOf(apiVersion);
  const found = users.filter((entry) => entry.kind === kind && (entry.group ?? group) === group);
  const own = Object.hasOwn(KINDS, kind) && GROUPS.includes(group) ? KINDS[kind] : undefined;
  const paths = found.length > 0 || own === undefined ? found : [{ path: own, required: true }];
  const places = paths.flatMap(({ path, required }) => expand(object, path).map((pod) => ({ pod, required })));
  // Two --template-path flags may match the same template.
  return [...new Map(places.map((place) => [JSON.stringify(place.pod), place])).values()];
}

function expand({ at, value }: ManifestObject, steps: readonly Step[]): Path[] {
  let found: { at: Path; value: unknown }[] = [{ at, value }];
  for (const step of steps) {
    found = found.flatMap((before) => {
      if (step !== EACH) return [{ at: [...before.at, step], value: Object(before.value)[step] }];
      const items = Array.isArray(before.value) ? before.value : [];
      return items.map((item, index) => ({ at: [...before.at, index], value: item }));
    });
  }
  return found.map((place) => place.at);
}

/**
 * Why the user may have wanted an object of an unknown kind injected: it contains a pod template. Undefined for other
 * objects, such as a Service.
 */
export function overlookedReason({ kind, apiVersion, value }: ManifestObject): Reason | undefined {
  const path = findTemplate(value, []);
  if (path === undefined) return undefined;
  const where = path.reduce<string>((text, step) => {
    return step === EACH ? `${text}[*]` : `${text}${text === "" ? "" : "."}${step}`;
  }, "");
  const group = groupOf(apiVersion);
  const flag = `--template-path ${kind}${group === "" ? "" : `.${group}`}=${where} injects it`;
  if (group === KNATIVE) {
    const setting = "kubernetes.podspec-hostaliases in the ConfigMap config-features";
    return { code: "host-aliases-refused", text: `Knative refuses hostAliases unless ${setting} allows them; ${flag}` };
  }
  const known = `known kinds are ${Object.keys(KINDS).join(", ")}`;
  const what = `kind ${show(kind)} is not known to hold pods, but ${where || "it"} looks like a pod template; ${known}`;
  return { code: "kind-unknown", text: where === "" ? what : `${what}; ${flag}` };
}

/**
 * The path to the first map that looks like a pod template: its `spec` has containers. Not every template is one:
 * there are also templates of an Application, a virtual machine or a node.
 */
function findTemplate(value: unknown, path: readonly Step[]): readonly Step[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(Object(Object(value).spec).containers)) return path;
  for (const [key, inner] of Object.entries(value)) {
    const found = findTemplate(inner, [...path, Array.isArray(value) ? EACH : key]);
    if (found !== undefined) return found;
  }
  return undefined;
}
