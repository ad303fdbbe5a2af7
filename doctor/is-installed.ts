import { isComponent } from "./checks/deployments.ts";
import type { ClusterFacts, WebhookEntry } from "./facts.ts";

/** The namespace of another installation, to which the webhook configuration of the cluster points. */
export function installedElsewhere({ admission, namespace }: ClusterFacts): string | undefined {
  const entries = admission.configuration.known ? (admission.configuration.value ?? []) : [];
  return entries.find(({ serviceNamespace = namespace }) => serviceNamespace !== namespace)?.serviceNamespace;
}

/** Whether any part of Switchback is installed in its namespace; undefined if unknown. */
export function isInstalled({ install, admission, namespace, namespaces }: ClusterFacts): boolean | undefined {
  const isInNamespace = ({ serviceNamespace = namespace }: WebhookEntry): boolean => serviceNamespace === namespace;
  const signs = [
    install.config.known ? install.config.value !== undefined : undefined,
    install.deployments.known ? install.deployments.value.some(({ name }) => isComponent(name)) : undefined,
    // A webhook in another namespace belongs to another installation, and a namespace that does not exist has none.
    admission.configuration.known
      ? admission.configuration.value?.some(isInNamespace) === true
      : namespaces.known && !namespaces.value.has(namespace)
        ? false
        : undefined,
  ];
  if (signs.includes(true)) return true;
  return signs.includes(undefined) ? undefined : false;
}
