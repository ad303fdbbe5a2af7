import { show } from "#hostmap/hostnames.ts";
import { INJECT_KEY, USER_KEYS } from "#hostmap/metadata-keys.ts";
import { isNamespaceOptedIn, type OptInRules } from "#hostmap/opt-in.ts";
import { optInRules } from "#lib/config/opt-in.ts";
import type { ClusterFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { ok, warning, broken, unknown } = findingsOf("opt-in");

/** The namespaces that opt in by name, and those that never opt in, as the configuration lists them. */
export function rulesOf({ install, namespace }: Pick<ClusterFacts, "install" | "namespace">): OptInRules {
  const config = install.config.known ? install.config.value : undefined;
  return config === undefined ? { excluded: new Set([namespace]), listed: NONE } : optInRules({ ...config, namespace });
}

/** Whether the API server sends the pods of opted-in namespaces to the webhook. */
export function checkOptIn(facts: ClusterFacts): Finding[] {
  if (!facts.namespaces.known)
    return [unknown("namespaces", facts.namespaces.reason.code, facts.namespaces.reason.text)];
  const rules = rulesOf(facts);
  const named = [...facts.namespaces.value].map(([name, { inject }]) => ({ name, inject }));
  const findings = [
    ...named.flatMap(({ name, inject }) => checkNamespace(name, inject, rules)),
    ...missingNamespaces(facts.namespaces.value, rules),
  ];
  if (findings.length > 0) return findings;
  const optedIn = named.filter(({ name, inject }) => isNamespaceOptedIn(name, inject, rules)).map(({ name }) => name);
  if (optedIn.length > 0) return [ok("namespaces", "opted-in", `opted in: ${optedIn.join(", ")}`)];
  if (!facts.pods.known) {
    const { code, text } = facts.pods.reason;
    return [unknown("namespaces", code, `no namespace has opted in; it is unknown whether a pod has: ${text}`)];
  }
  const pods = facts.pods.value.filter(({ labels }) => labels[INJECT_KEY] === "enabled");
  if (pods.length > 0) return [ok("namespaces", "opted-in", `no namespace opted in, but ${pods.length} pod(s) did`)];
  const cure = `kubectl label namespace NAMESPACE ${INJECT_KEY}=enabled, then restart its workloads`;
  return [warning("namespaces", "nobody-opted-in", "no namespace or pod has opted in: nothing is injected", cure)];
}

function checkNamespace(name: string, label: string | undefined, { excluded, listed }: OptInRules): Finding[] {
  const subject = `namespace ${name}`;
  if (label !== undefined && USER_KEYS[INJECT_KEY]?.values?.includes(label) !== true) {
    const evidence = `its label ${INJECT_KEY} has the value ${show(label)}, which has no effect`;
    return [warning(subject, "label-unknown", evidence, `set the label to enabled`)];
  }
  const wantsIn = isNamespaceOptedIn(name, label, { excluded: NONE, listed });
  if (!wantsIn || !excluded.has(name)) return [];
  const evidence = "it opted in, but the configuration excludes it: its pods are not injected";
  const cure =
    "remove it from `admission.excludedNamespaces`, or " +
    (label === "enabled" ? "remove its label" : "remove it from `config.optIn.namespaces`");
  return [broken(subject, "namespace-excluded", evidence, cure)];
}

const NONE: ReadonlySet<string> = new Set();

/** Namespaces that the configuration lists but that do not exist: a name may be misspelt. */
function missingNamespaces(existing: ReadonlyMap<string, unknown>, { listed }: OptInRules): Finding[] {
  return [...listed]
    .filter((name) => !existing.has(name))
    .map((name) =>
      warning(
        `namespace ${name}`,
        "namespace-missing",
        "`config.optIn.namespaces` lists it, and it does not exist",
        "correct the name; or create the namespace, and run `helm upgrade` so that its workloads can be restarted",
      ),
    );
}
