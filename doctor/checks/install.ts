import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { installedElsewhere, isInstalled } from "../is-installed.ts";
import { checkComponents } from "./deployments.ts";

const { ok, warning, broken, unknown } = findingsOf("install");

/** Whether Switchback is installed, and its Deployments are ready. */
export function checkInstall(facts: ClusterFacts): Finding[] {
  const { namespace, install } = facts;
  const other = installedElsewhere(facts);
  const evidence = `the webhook configuration points to namespace ${other}`;
  const elsewhere =
    other === undefined
      ? []
      : [warning(`namespace ${namespace}`, "installed-elsewhere", evidence, `switchback doctor --namespace ${other}`)];
  if (isInstalled(facts) === false) {
    const absent = ok(`namespace ${namespace}`, "not-installed", "Switchback is not installed");
    return elsewhere.length > 0 ? elsewhere : [absent];
  }
  const { config, deployments } = install;
  return [
    ...elsewhere,
    ...(config.known ? [] : [unknown("configuration", config.reason.code, config.reason.text)]),
    ...(config.known && config.value === undefined ? [noConfig(namespace)] : []),
    ...(deployments.known
      ? checkComponents(deployments.value, (name) => `Deployment ${namespace}/${name}`)
      : [unknown("Deployments", deployments.reason.code, deployments.reason.text)]),
  ];
}

function noConfig(namespace: string): Finding {
  const evidence = "there is no configuration: new pods of Switchback do not start";
  return broken(`namespace ${namespace}`, "config-missing", evidence, "reapply the chart");
}
