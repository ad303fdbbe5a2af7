import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "../is-installed.ts";
import { checkComponents } from "./deployments.ts";
import { checkNeed } from "./need-for-mapping.ts";

const { ok, warning, unknown } = findingsOf("install");

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
  const [need] = checkNeed(facts) as [Finding];
  const absent = "Switchback is not installed";
  switch (need.code) {
    case "mapping-needed": {
      const cure = "install Switchback, or apply one of the cures above";
      return warning(subject, "not-installed", `${absent}, and pods do not get through a load balancer`, cure);
    }
    case "need-unseen": {
      const hint = facts.probe?.known ? "" : " (check with --probe)";
      const cure =
        `if an ingress controller requires a PROXY header${hint}, ` +
        "install Switchback or apply one of the cures above";
      return warning(subject, "not-installed", `${absent}, and pods bypass a load balancer`, cure);
    }
    default:
      return need.status === "ok" || need.code === "need-pending"
        ? ok(subject, "not-needed", `${absent}, and no load balancer needs a mapping`)
        : unknown(subject, need.code, `${absent}; ${need.evidence}`);
  }
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
