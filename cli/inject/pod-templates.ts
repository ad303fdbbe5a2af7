import { show } from "#hostmap/hostnames.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { groupOf } from "#lib/kube/paths.ts";

/** A step into a map (a key), or into every item of a list. */
type Step = string | typeof EACH;
export const EACH = Symbol("[*]");

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

/** The other kinds in the API groups of `KINDS`. Any further kind in these groups is misspelt. */
const OTHER_KINDS: Readonly<Record<string, readonly string[]>> = {
  "": [
    "Binding",
    "ComponentStatus",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceQuota",
    "Secret",
    "Service",
    "ServiceAccount",
  ],
  apps: ["ControllerRevision"],
  batch: [],
};
/**
 * Groups in which a kind of `KINDS` is Kubernetes' own. In other groups it is a different kind, such as Volcano's
 * Job.
 */
const GROUPS: readonly string[] = [...Object.keys(OTHER_KINDS), "extensions"];

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
 * Paths to the pod templates of an object: the user's paths, else the path of one of Kubernetes' own kinds. [] if
 * none is known.
 */
export function templatePathsOf(kind: string, apiVersion: unknown, users: readonly TemplatePath[]): TemplatePath[] {
  const group = groupOf(apiVersion);
  const found = users.filter((entry) => entry.kind === kind && (entry.group ?? group) === group);
  if (found.length > 0) return found;
  const path = Object.hasOwn(KINDS, kind) && GROUPS.includes(group) ? KINDS[kind] : undefined;
  return path === undefined ? [] : [{ kind, group, path, required: true }];
}

/** The kinds that hold pods, if `kind` is misspelt: its group is one of Kubernetes' own and does not have it. */
export function misspeltIn(kind: string, apiVersion: unknown): readonly string[] | undefined {
  if (typeof apiVersion !== "string") return undefined;
  const others = OTHER_KINDS[groupOf(apiVersion)];
  if (others === undefined || others.includes(kind) || Object.hasOwn(KINDS, kind)) return undefined;
  return Object.keys(KINDS);
}

/** Renders a path, such as `spec.jobs[*].template`. */
export function renderSteps(path: readonly (Step | number)[]): string {
  let text = "";
  for (const step of path) {
    if (typeof step === "string") text += text === "" ? step : `.${step}`;
    else text += step === EACH ? "[*]" : `[${String(step)}]`;
  }
  return text;
}
