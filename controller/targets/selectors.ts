import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import type { TargetConfig } from "#lib/config/schema.ts";
import { listSome } from "#lib/errors/printable.ts";

export type Labels = Readonly<Record<string, string>>;

/**
 * Whether a Service selects the pods of `selector`: its own selector has all these labels. False if `selector` is
 * empty.
 */
export function selects(service: Labels | undefined, selector: Labels): boolean {
  const wanted = labelsOf(selector);
  const there = new Set(labelsOf(service));
  return wanted.length > 0 && wanted.every((label) => there.has(label));
}

/** The API server accepts no label with `=` in a Service's selector. */
function labelsOf(selector: Labels | undefined): string[] {
  return Object.entries(selector ?? {}).map(([key, value]) => `${key}=${value}`);
}

/**
 * Whether an object is exported to the namespace of the target's Service. Always true for a host outside the cluster.
 */
export function isExportedTo({ upstream }: TargetConfig, namespaces: readonly string[] | undefined): boolean {
  return namespaces === undefined || !("service" in upstream) || namespaces.includes(upstream.service.namespace);
}

export function notExported(targets: readonly TargetConfig[], namespaces: readonly string[]): Reason {
  const names = targets.map(({ name }) => name).join(", ");
  const list = listSome(namespaces, 3, show);
  const text = `\`exportTo\` allows the namespaces ${list}, and the Service of ${names} is in none of them`;
  return { code: "not-exported", text };
}

/** Shows up to three labels of a selector in a reason. */
function showSelector(selector: Labels): string {
  const labels = labelsOf(selector);
  const more = labels.length > 3 ? ` and ${labels.length - 3} more` : "";
  return `the selector ${show(labels.slice(0, 3).join(","))}${more} of its Gateway`;
}

export function severalSelect(targets: readonly TargetConfig[], selector: Labels): Reason {
  const names = targets.map(({ name }) => name).join(", ");
  const text = `the Services of several targets (${names}) have ${showSelector(selector)}; list the class istio in one`;
  return { code: "several-services", text };
}

export function noneSelects(selector: Labels): Reason {
  const isEmpty = Object.keys(selector).length === 0;
  const text = isEmpty
    ? "its Gateway has no selector, so it is not known which Service serves it"
    : `no configured target's Service has all labels of ${showSelector(selector)} in its own selector`;
  return { code: "no-gateway-service", text };
}
