import { findBalancers } from "../balancers.ts";
import type { ClusterFacts, DeploymentFacts, WebhookEntry } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { shortCircuited } from "./short-circuit.ts";

const { ok, warning, broken, unknown } = findingsOf("install");

const COMPONENTS = [
  { name: "switchback-controller", lost: "names and certificates are not kept current" },
  { name: "switchback-webhook", lost: "new pods are not injected" },
  { name: "switchback-proxy", lost: "mapped names are not answered" },
] as const;

/** Whether anything of Switchback is in its namespace; undefined: that cannot be told. */
export function isInstalled({ install, admission, namespace }: ClusterFacts): boolean | undefined {
  const isHere = ({ service }: WebhookEntry): boolean => service === undefined || service.namespace === namespace;
  const signs = [
    install.config.known ? install.config.value !== undefined : undefined,
    install.deployments.known ? install.deployments.value.some(({ name }) => isOurs(name)) : undefined,
    // One that leads to another namespace is another install's.
    admission.configuration.known ? admission.configuration.value?.some(isHere) === true : undefined,
  ];
  if (signs.includes(true)) return true;
  return signs.includes(undefined) ? undefined : false;
}

/** Whether Switchback is installed, and its three programs run. */
export function checkInstall(facts: ClusterFacts): Finding[] {
  const installed = isInstalled(facts);
  const elsewhere = judgeNamespace(facts);
  if (installed === false) return elsewhere.length > 0 ? elsewhere : [judgeAbsence(facts)];
  return [...elsewhere, ...judgeDeployments(facts)];
}

function isOurs(deployment: string): boolean {
  return COMPONENTS.some(({ name }) => name === deployment);
}

function judgeAbsence(facts: ClusterFacts): Finding {
  const subject = `namespace ${facts.namespace}`;
  const bypassed = findBalancers(facts).filter((balancer) => shortCircuited(balancer).length > 0);
  if (bypassed.length === 0)
    return ok(subject, "not-needed", "Switchback is not installed, and nothing is short-circuited");
  const evidence = `Switchback is not installed, and pods are led past ${bypassed.length} load balancer(s)`;
  const cure =
    "if an ingress controller demands a PROXY header (--probe tells), install Switchback or take one of the cures above";
  return warning(subject, "not-installed", evidence, cure);
}

/** The webhook configuration is the cluster's: it tells where the install is. */
function judgeNamespace({ admission, namespace }: ClusterFacts): Finding[] {
  const entries = admission.configuration.known ? (admission.configuration.value ?? []) : [];
  const other = entries
    .map(({ service }) => service?.namespace)
    .find((name) => name !== undefined && name !== namespace);
  if (other === undefined) return [];
  const evidence = `the webhook configuration leads to the namespace ${other}`;
  return [warning(`namespace ${namespace}`, "installed-elsewhere", evidence, `ask with --namespace ${other}`)];
}

function judgeDeployments({ install, namespace }: ClusterFacts): Finding[] {
  const { deployments } = install;
  if (!deployments.known) return [unknown("Deployments", deployments.reason.code, deployments.reason.text)];
  return COMPONENTS.map(({ name, lost }) => {
    const deployment = deployments.value.find((one) => one.name === name);
    return judgeDeployment(`Deployment ${namespace}/${name}`, deployment, lost);
  });
}

function judgeDeployment(subject: string, deployment: DeploymentFacts | undefined, lost: string): Finding {
  if (deployment === undefined)
    return broken(subject, "deployment-missing", `it is not there: ${lost}`, "install the chart again");
  const { ready, desired } = deployment;
  const evidence = `${ready} of ${desired} pods are ready`;
  if (ready === 0) {
    const cure = desired === 0 ? `scale ${subject} up` : "see its pods: `kubectl describe pod`, and their logs";
    return broken(subject, "deployment-not-ready", `${evidence}: ${lost}`, cure);
  }
  if (ready < desired) return warning(subject, "deployment-degraded", evidence, "see its pods: `kubectl describe pod`");
  return ok(subject, "deployment-ready", evidence);
}
