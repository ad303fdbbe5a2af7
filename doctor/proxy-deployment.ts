import type { ClusterFacts, DeploymentFacts } from "./facts.ts";

/**
 * The single Deployment of the chart's profile `small`. It replaces those of the controller, the webhook and the
 * proxy.
 */
export const SMALL_DEPLOYMENT = "switchback-all";
export const PROXY_DEPLOYMENT = "switchback-proxy";

/** The Deployment that relays; undefined if it is missing or Deployments cannot be read. */
export function proxyDeployment({ install }: ClusterFacts): DeploymentFacts | undefined {
  const deployments = install.deployments.known ? install.deployments.value : [];
  return deployments.find(({ name }) => name === PROXY_DEPLOYMENT || name === SMALL_DEPLOYMENT);
}
