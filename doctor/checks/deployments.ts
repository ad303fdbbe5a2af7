import type { ClusterFacts, DeploymentFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { ok, warning, broken } = findingsOf("install");

/**
 * The single Deployment of the chart's profile `small`. It replaces those of the controller, the webhook and the
 * proxy.
 */
export const SMALL_DEPLOYMENT = "switchback-all";
const PROXY_DEPLOYMENT = "switchback-proxy";

/** The Deployment that relays; undefined if it is missing or Deployments cannot be read. */
export function proxyDeployment({ install }: ClusterFacts): DeploymentFacts | undefined {
  const deployments = install.deployments.known ? install.deployments.value : [];
  return deployments.find(({ name }) => name === PROXY_DEPLOYMENT || name === SMALL_DEPLOYMENT);
}

const COMPONENTS = [
  { name: "switchback-controller", lost: "names and certificates are not kept current" },
  { name: "switchback-webhook", lost: "new pods are not injected" },
  { name: PROXY_DEPLOYMENT, lost: "connections to mapped names fail" },
] as const;
/** Replaces the three above in the chart's profile `small`. */
const SMALL_COMPONENTS = [
  {
    name: SMALL_DEPLOYMENT,
    lost: "connections to mapped names fail, new pods are not injected, and names are not kept current",
  },
] as const;

/** Whether Switchback needs this Deployment to work. */
export function isComponent(deployment: string): boolean {
  return [...COMPONENTS, ...SMALL_COMPONENTS].some(({ name }) => name === deployment);
}

/** One finding for each Deployment that Switchback needs to work; `subjectOf` names it. */
export function checkComponents(
  deployments: readonly DeploymentFacts[],
  subjectOf: (name: string) => string,
): Finding[] {
  const isSmall = deployments.some(({ name }) => name === SMALL_DEPLOYMENT);
  return (isSmall ? SMALL_COMPONENTS : COMPONENTS).map(({ name, lost }) => {
    const deployment = deployments.find((one) => one.name === name);
    return checkDeployment(subjectOf(name), deployment, lost);
  });
}

/** Whether a Deployment exists and its pods are ready. `lost` says what does not work without it. */
export function checkDeployment(subject: string, deployment: DeploymentFacts | undefined, lost: string): Finding {
  if (deployment === undefined)
    return broken(subject, "deployment-missing", `it does not exist: ${lost}`, "reinstall the chart");
  const { ready, desired } = deployment;
  const evidence = `${ready} of ${desired} pods are ready`;
  // The labels of the chart. Both resolvers of pod DNS are one component.
  const [, where = "", component] = /^(?:Deployment (\S+)\/)?switchback-([a-z]+)/.exec(subject) ?? [];
  const labels = `app.kubernetes.io/name=switchback,app.kubernetes.io/component=${component}`;
  const pods = `${where && ` -n ${where}`} -l ${labels}`;
  const examine = `kubectl describe pods${pods}; kubectl logs${pods}`;
  if (ready === 0) {
    const cure = desired === 0 ? `scale ${subject} up` : examine;
    return broken(subject, "deployment-not-ready", `${evidence}: ${lost}`, cure);
  }
  if (ready < desired) return warning(subject, "deployment-degraded", evidence, examine);
  return ok(subject, "deployment-ready", evidence);
}
