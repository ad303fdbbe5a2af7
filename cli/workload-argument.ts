import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { WORKLOAD_NAME } from "#lib/workloads/owners.ts";
import { isWorkloadKind, type WorkloadKind } from "#lib/workloads/workload-kinds.ts";
import { isNamespace } from "./command.ts";

/** The argument of `switchback restart`: a namespace, or one workload in it. */
interface WorkloadArgument {
  readonly namespace: string;
  readonly kind?: WorkloadKind | undefined;
  readonly name?: string | undefined;
}

/** How people write the kinds: in any case, singular, plural or short, as in kubectl. */
const WRITTEN: Readonly<Record<WorkloadKind, RegExp>> = {
  Deployment: /^deploy(ments?)?$/i,
  StatefulSet: /^(sts|statefulsets?)$/i,
  DaemonSet: /^(ds|daemonsets?)$/i,
};
const KINDS = Object.keys(WRITTEN) as WorkloadKind[];

/** Parses NAMESPACE, NAMESPACE/NAME or NAMESPACE/KIND/NAME. Throws `input-invalid`. */
export function parseWorkload(text: string): WorkloadArgument {
  const [namespace = "", ...rest] = text.split("/");
  const name = rest.at(-1);
  const kind = rest.length === 2 ? KINDS.find((each) => WRITTEN[each].test(rest[0] ?? "")) : undefined;
  const hasForm = rest.length < 2 || kind !== undefined;
  if (hasForm && isNamespace(namespace) && (name === undefined || WORKLOAD_NAME.test(name))) {
    return { namespace, kind, name };
  }
  throw new SwitchbackError(
    "input-invalid",
    `${JSON.stringify(text)}: expected NAMESPACE, NAMESPACE/NAME or NAMESPACE/KIND/NAME, such as ` +
      "shop/deployment/web, with the kind deployment, statefulset or daemonset",
  );
}

/**
 * The stale workloads that the argument selects. Throws `input-invalid` if it matches none, or if its name matches
 * several workloads or one that cannot be restarted.
 */
export function selectWorkloads(
  { namespace, kind, name }: WorkloadArgument,
  all: readonly WorkloadStatus[],
): WorkloadStatus[] {
  const found = all.filter(
    (each) => each.namespace === namespace && each.name === (name ?? each.name) && each.kind === (kind ?? each.kind),
  );
  const what = [namespace, kind?.toLowerCase(), name].filter((part) => part !== undefined).join("/");
  const refuse = (text: string) => new SwitchbackError("input-invalid", text);
  if (found.length === 0)
    throw refuse(`${what}: no opted-in pods found; \`switchback status\` lists the workloads that have some`);
  if (name !== undefined && found.length > 1) {
    const whole = found.map((each) => `${each.namespace}/${each.kind.toLowerCase()}/${each.name}`).join(" or ");
    throw refuse(`${found.length} workloads have the name ${what}: use ${whole}`);
  }
  const other = found.find((each) => !isWorkloadKind(each.kind));
  if (name !== undefined && other !== undefined)
    throw refuse(`${what} is a ${other.kind}: delete its pods, or recreate it`);
  return found.filter((each) => each.stale > 0 && isWorkloadKind(each.kind));
}
