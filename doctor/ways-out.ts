import { MAP_KEY } from "#hostmap/metadata-keys.ts";
import type { ClusterFacts, ServiceFacts } from "./facts.ts";
import { optionalCures } from "./header-cures.ts";
import { type LoadBalancer, shortCircuited } from "./load-balancers.ts";
import { ownCures, providerCures } from "./providers.ts";

/**
 * The cures for pods that do not get through a load balancer. Cures without Switchback come first: make the ingress
 * controller accept connections without a header, or use the provider's own setting. A mapping comes last.
 */
export function waysOut(loadBalancer: LoadBalancer, facts: ClusterFacts): string[] {
  const { service, software } = loadBalancer;
  const optional = optionalCures(software);
  if (shortCircuited(loadBalancer).length > 0) {
    const addTarget = "or let Switchback map its names: add it to `config.targets`";
    return [...optional, ...providerCures(service, facts), addTarget];
  }
  // kube-proxy already leaves this address alone, so ipMode would change nothing. Switchback maps
  // its names only on request.
  return [
    ...optional,
    ...ownCures(service, facts),
    `or let Switchback map its names: annotate the Service with \`${MAP_KEY}: always\`, ` +
      "and with `switchback.dev/proxy-protocol: none` if it expects no header",
  ];
}

/** Whether the Service or the configuration asks to map its names although nothing is short-circuited. */
export function isMappedAlways({ annotations }: ServiceFacts, { install }: ClusterFacts): boolean {
  const config = install.config.known ? install.config.value : undefined;
  return (annotations[MAP_KEY] ?? config?.discovery.map) === "always";
}
