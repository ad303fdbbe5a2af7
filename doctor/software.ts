import type { ServiceFacts } from "./facts.ts";
import { ANY, type IngressSoftware, KNOWN_SOFTWARE } from "./known-software.ts";

/** Labels that charts and operators set to the name of the software behind a Service. */
const LABELS: readonly string[] = ["app.kubernetes.io/name", "app", "k8s-app", "istio"];

/** Infers the ingress controller behind a Service from its labels, selector and name; undefined if unknown. */
export function softwareOf({ name, labels, selector }: ServiceFacts): IngressSoftware | undefined {
  const valuesOf = (label: string) => [labels[label] ?? [], selector[label] ?? []].flat();
  const matches = (values: readonly string[], pattern: RegExp) => values.some((value) => pattern.test(value));
  const names = [...LABELS.flatMap(valuesOf), name];
  return KNOWN_SOFTWARE.find(
    (known) =>
      (known.names !== undefined && matches(names, known.names)) ||
      Object.entries(known.labels ?? {}).some(([label, pattern]) => matches(valuesOf(label), pattern)),
  );
}

/** Whether an ingress controller is known by this name, or by this value of a label. */
export function isSoftwareName(word: string): boolean {
  return KNOWN_SOFTWARE.some(({ names, labels = {} }) =>
    [names, ...Object.values(labels)].some((pattern) => pattern !== undefined && pattern !== ANY && pattern.test(word)),
  );
}

/** How to make the ingress controller accept pods without a header, if it can. */
export function optionalCures(software: IngressSoftware | undefined): string[] {
  return software?.optional === undefined ? [] : [`${software.title}: ${software.optional} (${software.source})`];
}

/** How to make the ingress controller trust the proxies; general advice if the controller is unknown. */
export function trustCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) return `${software.title}: ${software.trust} (${software.source})`;
  return (
    "configure the ingress controller to trust PROXY headers from the proxy pods' addresses " +
    "(ingress-nginx `proxy-real-ip-cidr`, Traefik `proxyProtocol.trustedIPs`, IBM's ALB `--cidr`)"
  );
}

/** How to make the ingress controller accept a header. */
export function acceptCure(software: IngressSoftware | undefined): string {
  if (software === undefined) return "configure the ingress controller to accept PROXY headers";
  const { title, accept, versions = "versions 1 and 2", source } = software;
  return `${title}: ${accept}; it takes ${versions} (${source})`;
}
