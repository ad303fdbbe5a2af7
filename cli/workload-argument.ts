import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { WORKLOAD_NAME } from "#lib/workloads/owners.ts";
import { isWorkloadKind, WORKLOAD_KINDS } from "#lib/workloads/workload-kinds.ts";
import { isNamespace } from "./command.ts";

/** The argument of `switchback restart`: a namespace, or one workload in it. */
interface WorkloadArgument {
  readonly namespace: string;
  /** The kind as the user wrote it: compare it with `isKind`. */
  readonly kind?: string;
  readonly name?: string;
}

/** kubectl's short names. */
const SHORT: Readonly<Record<string, string>> = { deploy: "deployment", sts: "statefulset", ds: "daemonset" };
const KIND = /^[A-Za-z][A-Za-z0-9]*$/;

/**
 * Parses NAMESPACE, NAMESPACE/NAME or NAMESPACE/KIND/NAME. The kind may have any case, and be singular, plural or
 * short, as in kubectl. Throws `input-invalid`.
 */
export function parseWorkload(text: string): WorkloadArgument {
  const [namespace = "", ...rest] = text.split("/");
  const [kind, name] = rest.length === 1 ? [undefined, rest[0]] : rest;
  const isWhole = rest.length === 0 || (name !== undefined && WORKLOAD_NAME.test(name));
  if (rest.length > 2 || !isNamespace(namespace) || !isWhole || (kind !== undefined && !KIND.test(kind))) {
    throw new SwitchbackError(
      "input-invalid",
      `${JSON.stringify(text)}: expected NAMESPACE, NAMESPACE/NAME or NAMESPACE/KIND/NAME, such as shop/deployment/web`,
    );
  }
  return { namespace, ...(kind === undefined ? {} : { kind }), ...(name === undefined ? {} : { name }) };
}

/** Whether `written` means this kind: `Deployment`, `deployment`, `deployments` or `deploy`. */
function isKind(kind: string, written: string): boolean {
  const [one, other] = [kind.toLowerCase(), written.toLowerCase()];
  return other === one || other === `${one}s` || SHORT[other] === one;
}

/** The accepted kinds as text: `deployment, statefulset or daemonset`. */
const ACCEPTED_KINDS = WORKLOAD_KINDS.map((kind) => kind.toLowerCase())
  .join(", ")
  .replace(/, (\w+)$/, " or $1");

/**
 * The stale workloads that the argument selects. Throws `input-invalid` if it matches none, or if its name matches
 * several workloads or one that cannot be restarted.
 */
export function selectWorkloads(
  { namespace, kind, name }: WorkloadArgument,
  all: readonly WorkloadStatus[] | undefined,
): WorkloadStatus[] {
  if (all === undefined)
    throw new SwitchbackError("kube-unreachable", "no controller is the leader at the moment: try again");
  const named = all
    .filter((each) => each.namespace === namespace && (name === undefined || each.name === name))
    .filter((each) => kind === undefined || isKind(each.kind, kind));
  const what = [namespace, kind, name].filter((part) => part !== undefined).join("/");
  if (named.length === 0) {
    const message = `${what}: no opted-in pods found; \`switchback status\` lists the workloads that have some`;
    const kinds = kind === undefined ? "" : ` (a kind that can be restarted is ${ACCEPTED_KINDS})`;
    throw new SwitchbackError("input-invalid", `${message}${kinds}`);
  }
  if (name !== undefined) checkNamed(what, named);
  return named.filter((each) => each.stale > 0 && isWorkloadKind(each.kind));
}

/** Throws unless exactly one workload has the name, and it can be restarted. */
function checkNamed(what: string, named: readonly WorkloadStatus[]): void {
  if (named.length > 1) {
    const whole = named.map((each) => `${each.namespace}/${each.kind.toLowerCase()}/${each.name}`).join(" or ");
    throw new SwitchbackError("input-invalid", `${named.length} workloads have the name ${what}: use ${whole}`);
  }
  const [other] = named.filter((each) => !isWorkloadKind(each.kind));
  if (other !== undefined) {
    throw new SwitchbackError("input-invalid", `${what} is a ${other.kind}: delete its pods, or recreate it`);
  }
}
