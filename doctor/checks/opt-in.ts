import { show } from "#hostmap/hostnames.ts";
import { INJECT_KEY, USER_KEYS } from "#hostmap/metadata-keys.ts";
import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";
import { isInstalled } from "./install.ts";

const { ok, warning, broken, unknown } = findingsOf("opt-in");

/** Whether the API server sends the pods of opted-in namespaces to the webhook. */
export function checkOptIn(facts: ClusterFacts): Finding[] {
  if (isInstalled(facts) === false) return [];
  if (!facts.namespaces.known)
    return [unknown("namespaces", facts.namespaces.reason.code, facts.namespaces.reason.text)];
  const labelled = [...facts.namespaces.value].flatMap(([name, { inject }]) =>
    inject === undefined ? [] : [{ name, inject }],
  );
  const excluded = namespacesExcludedBy(facts);
  const findings = labelled.flatMap(({ name, inject }) => checkNamespace(name, inject, excluded));
  if (findings.length > 0) return findings;
  const enabled = labelled.filter(({ inject }) => inject === "enabled").map(({ name }) => name);
  if (enabled.length > 0) return [ok("namespaces", "opted-in", `opted in: ${enabled.join(", ")}`)];
  if (!facts.pods.known) {
    const { code, text } = facts.pods.reason;
    return [unknown("namespaces", code, `no namespace has opted in; it is unknown whether a pod has: ${text}`)];
  }
  const pods = facts.pods.value.filter(({ labels }) => labels[INJECT_KEY] === "enabled");
  if (pods.length > 0)
    return [ok("namespaces", "pods-opted-in", `no namespace opted in, but ${pods.length} pod(s) did`)];
  const cure = `kubectl label namespace NAMESPACE ${INJECT_KEY}=enabled, then restart its workloads`;
  return [warning("namespaces", "nobody-opted-in", "no namespace or pod has opted in: nothing is injected", cure)];
}

function checkNamespace(name: string, value: string, excluded: readonly string[]): Finding[] {
  const subject = `namespace ${name}`;
  if (value !== "enabled") {
    const accepted = USER_KEYS[INJECT_KEY]?.values?.includes(value) === true;
    // `disabled` is valid on a namespace and has no effect.
    if (accepted) return [];
    const evidence = `its label ${INJECT_KEY} has the value ${show(value)}, which has no effect`;
    return [warning(subject, "label-unknown", evidence, `set the label to enabled`)];
  }
  if (!excluded.includes(name)) return [];
  const evidence = "it opted in, but the webhook configuration excludes it: its pods are not injected";
  return [
    broken(
      subject,
      "namespace-excluded",
      evidence,
      "remove it from `admission.excludedNamespaces`, or remove its label",
    ),
  ];
}

/**
 * The namespaces that the webhook configuration excludes; if it cannot be read, those of
 * Switchback's configuration.
 */
export function namespacesExcludedBy({ admission, install, namespace }: ClusterFacts): string[] {
  const live = admission.configuration.known ? admission.configuration.value : undefined;
  const configured = install.config.known ? (install.config.value?.pods.excludedNamespaces ?? []) : [];
  return [...new Set([...(live?.flatMap((entry) => entry.excludedNamespaces) ?? configured), namespace])];
}
