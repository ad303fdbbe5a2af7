import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { groupOf } from "#lib/kube/paths.ts";
import type { KubeValue, Path } from "../kube-file.ts";

/** Stands for every item of a list in a path. */
const EACH = "[*]";

/** Where objects of one kind have a pod template. */
export interface TemplatePath {
  readonly kind: string;
  /** Undefined: any group. */
  readonly group: string | undefined;
  /** Keys, and `EACH`, from the object to the map with the pod's `metadata` and `spec`; [] for a Pod itself. */
  readonly path: readonly string[];
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

const FLAG = /^([A-Za-z][A-Za-z0-9]*)(?:\.([a-z0-9.-]+))?=\.?((?:[\w-]+(?:\[\*\])?(?:\.(?=.)|$))+)$/;

/** Parses one `--template-path`. Throws `input-invalid`, with the accepted form. */
export function parseTemplatePath(flag: string): TemplatePath {
  const [, kind, group, path] = FLAG.exec(flag) ?? [];
  if (kind !== undefined && path !== undefined) return { kind, group, path: path.split(/\.|(?=\[)/) };
  const accepted = "KIND[.GROUP]=PATH, such as Rollout.argoproj.io=spec.template or JobSet=spec.jobs[*].template";
  throw new SwitchbackError("input-invalid", `--template-path ${show(flag)}: accepted is ${accepted}`);
}

/**
 * The places of the pod templates of an object, by the user's paths, else by the path of one of Kubernetes' own kinds.
 * A place without `[*]` is returned even if it does not exist: `required` says whether every object of the kind has a
 * template there. [] if no path is known.
 */
export function templatesOf(
  object: KubeValue,
  users: readonly TemplatePath[],
): { readonly path: Path; readonly required: boolean }[] {
  const kind = String(object.kind);
  const group = groupOf(object.apiVersion);
  const found = users.filter((entry) => entry.kind === kind && (entry.group ?? group) === group);
  const own = Object.hasOwn(KINDS, kind) && GROUPS.includes(group) ? KINDS[kind] : undefined;
  if (found.length === 0 && own !== undefined) return [{ path: own, required: true }];
  // An object of a user's own kind may refer to another object instead.
  return found.flatMap(({ path }) => expand(object, path).map((each) => ({ path: each, required: false })));
}

/** The paths that a path with `EACH` selects: one for each item of the list there. */
function expand(value: unknown, [step, ...rest]: readonly string[], at: Path = []): Path[] {
  if (step === undefined) return [at];
  if (step !== EACH) return expand(Object(value)[step], rest, [...at, step]);
  return Array.isArray(value) ? value.flatMap((item, index) => expand(item, rest, [...at, index])) : [];
}

/**
 * Why the user may have wanted what has no known kind injected: it is no object, or contains a pod template. Undefined
 * for other objects, such as a Service.
 */
export function overlookedReason(object: KubeValue): Reason | undefined {
  if (typeof object.kind !== "string")
    return { code: "not-an-object", text: "this is not a Kubernetes object: it has no kind" };
  const path = findTemplate(object);
  if (path === undefined) return undefined;
  const { kind } = object;
  const group = groupOf(object.apiVersion);
  const where = pathText(path);
  const flag = `--template-path ${kind}${group === "" ? "" : `.${group}`}=${where} injects it`;
  const known = `known kinds are ${Object.keys(KINDS).join(", ")}`;
  const what = `kind ${show(kind)} is not known to hold pods, but ${where || "it"} looks like a pod template; ${known}`;
  return { code: "kind-unknown", text: where === "" ? what : `${what}; ${flag}` };
}

/**
 * The path to the first map that looks like a pod template: its `spec` has containers. Not every template is one:
 * there are also templates of an Application, a virtual machine or a node.
 */
function findTemplate(value: unknown, path: readonly string[] = []): readonly string[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (Array.isArray(Object(Object(value).spec).containers)) return path;
  for (const [key, inner] of Object.entries(value)) {
    const found = findTemplate(inner, [...path, Array.isArray(value) ? EACH : key]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Such as `spec.jobs[0].template`. */
export function pathText(path: Path): string {
  const steps = path.map((step) => (typeof step === "number" ? `[${step}]` : step));
  return steps.join(".").replaceAll(".[", "[");
}
