import { SMALL_DEPLOYMENT } from "#lib/documents/installed-config.ts";
import type { ClusterFacts, DeploymentFacts, WebhookEntry } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { findLoadBalancers, shortCircuited } from "../load-balancers.ts";
import { PROXY_DEPLOYMENT } from "../proxy-deployment.ts";

const { ok, warning, broken, unknown } = findingsOf("install");

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

/** Whether any part of Switchback is installed in its namespace; undefined if unknown. */
export function isInstalled({ install, admission, namespace }: ClusterFacts): boolean | undefined {
  const isInNamespace = ({ service }: WebhookEntry): boolean =>
    service === undefined || service.namespace === namespace;
  const signs = [
    install.config.known ? install.config.value !== undefined : undefined,
    install.deployments.known ? install.deployments.value.some(({ name }) => isComponent(name)) : undefined,
    // A webhook in another namespace belongs to another installation.
    admission.configuration.known ? admission.configuration.value?.some(isInNamespace) === true : undefined,
  ];
  if (signs.includes(true)) return true;
  return signs.includes(undefined) ? undefined : false;
}

/** Whether Switchback is installed, and its Deployments are ready. */
export function checkInstall(facts: ClusterFacts): Finding[] {
  const installed = isInstalled(facts);
  const elsewhere = checkNamespace(facts);
  if (installed === false) return elsewhere.length > 0 ? elsewhere : [checkAbsence(facts)];
  return [...elsewhere, ...checkDeployments(facts)];
}

function isComponent(deployment: string): boolean {
  return [...COMPONENTS, ...SMALL_COMPONENTS].some(({ name }) => name === deployment);
}

function checkAbsence(facts: ClusterFacts): Finding {
  const subject = `namespace ${facts.namespace}`;
  const bypassed = findLoadBalancers(facts).filter((loadBalancer) => shortCircuited(loadBalancer).length > 0);
  if (bypassed.length === 0 && !facts.services.known)
    return unknown(subject, facts.services.reason.code, `Switchback is not installed; ${facts.services.reason.text}`);
  if (bypassed.length === 0)
    return ok(subject, "not-needed", "Switchback is not installed, and no load balancer is short-circuited");
  const evidence = `Switchback is not installed, and pods bypass ${bypassed.length} load balancer(s)`;
  const cure =
    "if an ingress controller requires a PROXY header (check with --probe), " +
    "install Switchback or apply one of the cures above";
  return warning(subject, "not-installed", evidence, cure);
}

/** The webhook configuration is cluster-scoped: it shows which namespace Switchback is installed in. */
function checkNamespace({ admission, namespace }: ClusterFacts): Finding[] {
  const entries = admission.configuration.known ? (admission.configuration.value ?? []) : [];
  const other = entries
    .map(({ service }) => service?.namespace)
    .find((name) => name !== undefined && name !== namespace);
  if (other === undefined) return [];
  const evidence = `the webhook configuration points to namespace ${other}`;
  return [warning(`namespace ${namespace}`, "installed-elsewhere", evidence, `run with --namespace ${other}`)];
}

function checkDeployments({ install, namespace }: ClusterFacts): Finding[] {
  const { deployments } = install;
  if (!deployments.known) return [unknown("Deployments", deployments.reason.code, deployments.reason.text)];
  const isSmall = deployments.value.some(({ name }) => name === SMALL_DEPLOYMENT);
  return (isSmall ? SMALL_COMPONENTS : COMPONENTS).map(({ name, lost }) => {
    const deployment = deployments.value.find((one) => one.name === name);
    return checkDeployment(`Deployment ${namespace}/${name}`, deployment, lost);
  });
}

/** Whether a Deployment exists and its pods are ready. `lost` says what does not work without it. */
export function checkDeployment(subject: string, deployment: DeploymentFacts | undefined, lost: string): Finding {
  if (deployment === undefined)
    return broken(subject, "deployment-missing", `it does not exist: ${lost}`, "reinstall the chart");
  const { ready, desired } = deployment;
  const evidence = `${ready} of ${desired} pods are ready`;
  if (ready === 0) {
    const cure = desired === 0 ? `scale ${subject} up` : "check its pods with `kubectl describe pod`, and their logs";
    return broken(subject, "deployment-not-ready", `${evidence}: ${lost}`, cure);
  }
  if (ready < desired)
    return warning(subject, "deployment-degraded", evidence, "check its pods with `kubectl describe pod`");
  return ok(subject, "deployment-ready", evidence);
}
