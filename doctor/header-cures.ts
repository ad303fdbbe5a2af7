import type { IngressSoftware } from "#controller/targets/known-software.ts";

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
