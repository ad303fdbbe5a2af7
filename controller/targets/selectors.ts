import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";
import type { RoutingHints } from "../sources/types.ts";
import type { TargetTable } from "./target-table.ts";

type Labels = Readonly<Record<string, string>>;

/**
 * The configured target whose Service selects the pods that serve an object, and is in a namespace that the object is
 * exported to. If there are several, the one that lists the object's class wins. Discovered targets do not count: an
 * egress gateway may have a LoadBalancer Service, and tenants can copy labels. A host outside the cluster selects
 * nothing, so it counts if it lists the class, or if it is the target without classes.
 */
export function targetOfPods(
  { className, exportedTo }: RoutingHints,
  selector: Labels,
  table: TargetTable,
): TargetConfig | Reason {
  const { targets } = table.config;
  const lists = ({ classes }: TargetConfig) => className !== undefined && classes.includes(className);
  const ofPods = targets.filter((target) => selects(table.serviceOf(target)?.selector, selector));
  const selecting = ofPods.filter(
    ({ upstream }) =>
      exportedTo === undefined || !("service" in upstream) || exportedTo.includes(upstream.service.namespace),
  );
  const names = ofPods.map(({ name }) => name).join(", ");
  if (selecting.length === 0 && ofPods.length > 0) {
    const list = listSome(exportedTo ?? [], 3, show);
    const text = `\`exportTo\` allows the namespaces ${list}, and the Service of ${names} is in none of them`;
    return { code: "not-allowed", text };
  }
  const [one, ...others] = selecting.some(lists) ? selecting.filter(lists) : selecting;
  if (one !== undefined && others.length > 0) {
    const what = `the Services of several targets (${names}) have ${showSelector(selector)}`;
    return { code: "several-services", text: `${what}; list the class istio in one` };
  }
  const outside = targets.find((target) => "host" in target.upstream && (lists(target) || target === table.byDefault));
  return one ?? outside ?? noneSelects(selector);
}

/**
 * Whether a Service selects the pods of `selector`: its own selector has all these labels. False if `selector` is
 * empty.
 */
function selects(service: Labels | undefined, selector: Labels): boolean {
  const wanted = labelsOf(selector);
  const there = new Set(labelsOf(service));
  return wanted.length > 0 && wanted.every((label) => there.has(label));
}

/** The API server accepts no label with `=` in a Service's selector. */
function labelsOf(selector: Labels | undefined): string[] {
  return Object.entries(selector ?? {}).map(([key, value]) => `${key}=${value}`);
}

/** Shows up to three labels of a selector in a reason. */
function showSelector(selector: Labels): string {
  const labels = labelsOf(selector);
  const more = labels.length > 3 ? ` and ${labels.length - 3} more` : "";
  return `the selector ${show(labels.slice(0, 3).join(","))}${more} of its Gateway`;
}

function noneSelects(selector: Labels): Reason {
  const isEmpty = Object.keys(selector).length === 0;
  const text = isEmpty
    ? "its Gateway has no selector, so it is not known which Service serves it"
    : `no configured target's Service has all labels of ${showSelector(selector)} in its own selector`;
  return { code: "no-gateway-service", text };
}
