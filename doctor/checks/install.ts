import type { ClusterFacts, WebhookEntry } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { findLoadBalancers, shortCircuited } from "../load-balancers.ts";
import { checkComponents, isComponent } from "./deployments.ts";

const { ok, warning, unknown } = findingsOf("install");

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
  const { deployments } = facts.install;
  if (!deployments.known)
    return [...elsewhere, unknown("Deployments", deployments.reason.code, deployments.reason.text)];
  return [...elsewhere, ...checkComponents(deployments.value, (name) => `Deployment ${facts.namespace}/${name}`)];
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
