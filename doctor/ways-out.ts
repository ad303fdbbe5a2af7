import type { IngressSoftware } from "#controller/sources/known-software.ts";
import { MAP_KEY, PROXY_PROTOCOL_KEY } from "#hostmap/metadata-keys.ts";
import type { ClusterFacts, ServiceFacts } from "./facts.ts";
import { installedElsewhere, isInstalled } from "./is-installed.ts";
import { filteredBy, type LoadBalancer, portsOf, shortCircuited } from "./load-balancers.ts";
import { isDropped } from "./probe/probed-ports.ts";
import { annotateCommand, providerCures } from "./providers.ts";

/** cert-manager's own setting. With it, cert-manager waits instead of calling the name itself. */
const WAIT =
  "if only cert-manager calls public names (1.21 or newer), in each solver for HTTP-01 of its issuers:\n" +
  "solvers:\n" +
  "  - http01: {}   # what it has now\n" +
  "    waitInsteadOfSelfCheck: 60s";

/** Where CHART is, the notes of each release say: docs/install.md. */
const INSTALL =
  "Switchback: helm install switchback CHART --namespace switchback-system --create-namespace " +
  "--set 'config.optIn.namespaces={NAMESPACE}'";

/**
 * The cures for pods that do not get through a load balancer, the best first. Those without Switchback come first:
 * cert-manager's setting, admit the pods, accept connections without a header, the provider's own setting.
 */
export function waysOut(loadBalancer: LoadBalancer, facts: ClusterFacts): string[] {
  const { service, software } = loadBalancer;
  const ranges = filteredBy(loadBalancer);
  const ports = portsOf(loadBalancer, facts);
  const admit = `add the pods' addresses to \`loadBalancerSourceRanges\` of the Service (${ranges.join(", ")})`;
  // Discovery maps short-circuited names if the ingress controller takes a header. Others it maps only on request.
  const takesHeader = shortCircuited(loadBalancer).length > 0 && ports.every(({ kind }) => kind !== "refuses");
  const mapping = mappingCure(service, facts, !takesHeader || ranges.length > 0);
  const waits = facts.selfChecks.known && facts.selfChecks.value ? [WAIT] : [];
  if (ranges.length > 0 && isDropped(ports)) return [...waits, admit, mapping];
  const others = [...optionalCures(software), ...providerCures(service)];
  return [...waits, ...(ranges.length > 0 ? [admit] : []), ...others, mapping];
}

/** How to have Switchback map the names of a Service; `onRequest`: it maps them only if the Service asks for it. */
export function mappingCure(service: ServiceFacts, facts: ClusterFacts, onRequest: boolean): string {
  const config = facts.install.config.known ? facts.install.config.value : undefined;
  const isAbsent = isInstalled(facts) === false;
  if (config?.discovery.enabled === false && !isAbsent)
    return "let Switchback map its names: add it to `config.targets`";
  const other = installedElsewhere(facts);
  if (isAbsent && other !== undefined) return `switchback doctor --namespace ${other}   # it is installed there`;
  const annotate = annotateCommand(service, `${MAP_KEY}=always`);
  const isAsked = !onRequest || isMappedAlways(service, facts);
  if (isAbsent) return isAsked ? INSTALL : `${INSTALL}\n${annotate}`;
  if (!isAsked) return `${annotate}   # and ${PROXY_PROTOCOL_KEY}=none if it expects no header`;
  return "see why Switchback does not map its names: `switchback status`";
}

/** Whether the Service or the configuration asks to map its names although nothing is short-circuited. */
export function isMappedAlways({ annotations }: ServiceFacts, { install }: ClusterFacts): boolean {
  const config = install.config.known ? install.config.value : undefined;
  return (annotations[MAP_KEY] ?? config?.discovery.map) === "always";
}

/** How to make the ingress controller accept pods without a header, if it can. */
function optionalCures(software: IngressSoftware | undefined): string[] {
  return software?.optional === undefined ? [] : [`${software.title}: ${software.optional} (${software.source})`];
}

/** How to make the ingress controller trust the proxies; general advice if the controller is unknown. */
export function trustCure(software: IngressSoftware | undefined): string {
  if (software !== undefined) {
    const { title, accept, trust = `it believes every sender once it accepts headers: ${accept}`, source } = software;
    return `${title}: ${trust} (${source})`;
  }
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
