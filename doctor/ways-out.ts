import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import type { ClusterFacts, ServiceFacts } from "./facts.ts";
import { optionalCures } from "./header-cures.ts";
import { isInstalled } from "./is-installed.ts";
import { filteredBy, isDropped, type LoadBalancer, refusesHeaders, shortCircuited } from "./load-balancers.ts";
import { providerCures } from "./providers.ts";

/**
 * The cures for pods that do not get through a load balancer. Cures without Switchback come first: admit the pods, make
 * the ingress controller accept connections without a header, or use the provider's own setting. A mapping comes last.
 */
export function waysOut(loadBalancer: LoadBalancer, facts: ClusterFacts): string[] {
  const { service, software } = loadBalancer;
  const ranges = filteredBy(loadBalancer);
  const admit = `add the pods' addresses to \`loadBalancerSourceRanges\` of the Service (${ranges.join(", ")})`;
  // Discovery maps short-circuited names if the ingress controller takes a header. Others it maps only on request.
  const takesHeader = shortCircuited(loadBalancer).length > 0 && !refusesHeaders(loadBalancer, facts);
  const mapping = mappingCure(service, facts, !takesHeader || ranges.length > 0);
  if (ranges.length > 0 && isDropped(loadBalancer, facts)) return [admit, mapping];
  return [...(ranges.length > 0 ? [admit] : []), ...optionalCures(software), ...providerCures(service), mapping];
}

/** How to have Switchback map the names of a Service; `onRequest`: it maps them only if the Service asks for it. */
export function mappingCure(service: ServiceFacts, facts: ClusterFacts, onRequest: boolean): string {
  const config = facts.install.config.known ? facts.install.config.value : undefined;
  if (config?.discovery.enabled === false) return "let Switchback map its names: add it to `config.targets`";
  const isAbsent = isInstalled(facts) === false;
  if (onRequest && !isMappedAlways(service, facts)) {
    const annotate =
      `annotate the Service with \`${MAP_KEY}: always\`, ` +
      "and with `switchback.dev/proxy-protocol: none` if it expects no header";
    return isAbsent ? `install Switchback, and ${annotate}` : `let Switchback map its names: ${annotate}`;
  }
  if (isAbsent) return "install Switchback, which maps its names";
  return "see why Switchback does not map its names: `switchback status`";
}

/** Whether the Service or the configuration asks to map its names although nothing is short-circuited. */
export function isMappedAlways({ annotations }: ServiceFacts, { install }: ClusterFacts): boolean {
  const config = install.config.known ? install.config.value : undefined;
  return (annotations[MAP_KEY] ?? config?.discovery.map) === "always";
}
