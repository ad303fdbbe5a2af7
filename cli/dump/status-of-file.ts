import type { FullStatus, NameStatus, StatusDocument } from "#controller/status.ts";
import { checkComponents } from "#doctor/checks/deployments.ts";
import type { InstallFacts } from "#doctor/facts.ts";
import { gatherInstall } from "#doctor/gather-install.ts";
import { observeOnly } from "#doctor/gather-names.ts";
import type { Reason } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import { configSections } from "../extras.ts";
import type { ClusterFile } from "./read-file.ts";

/**
 * Timeouts for reading the file, far longer than 250,000 names take on a busy machine. A file answers at once, so a
 * source that is stuck ends it earlier.
 */
const PATIENCE = { withinMs: 600_000, stuckMs: 500 };

/**
 * Computes the status that a controller would have in the cluster of a file, with the installed configuration or the
 * default one. The DNS answers are those that the controller reported. A file answers no other question, so a name
 * whose decision needs one counts as mapped, and a warning says so. Kinds without objects count as empty, and a warning
 * names them.
 */
export async function statusOfFile({
  head: { namespace },
  client: knownClient,
  wholeClient: client,
  lacks,
}: ClusterFile): Promise<FullStatus> {
  const install = await gatherInstall(knownClient, namespace, await configSections());
  const { status: page, config, targets } = install;
  if (!config.known && config.reason.code === "config-unreadable")
    throw new SwitchbackError("input-invalid", printable(config.reason.text));
  const reported = page.known ? page.value.names : [];
  const answers = new Map(reported.flatMap(({ name, resolved }) => (resolved ? [[name, resolved] as const] : [])));
  // Whether proxies have asked an ingress controller there.
  const isAsked = targets.known && targets.value?.some(({ ask }) => ask) === true;
  const { status: observed } = await observeOnly({
    ...{ client, namespace, config, isAsked, patience: PATIENCE },
    answers: answers.size > 0 ? answers : undefined,
    identity: "the file",
  });
  // A running controller would create the front Service that the file lacks, so the target's names are not refused.
  const hasNoFront = ({ reason }: NameStatus) => reason?.code === "target-without-address";
  const names = observed.names.map((name) => (hasNoFront(name) ? { ...name, reason: undefined } : name));
  const conditions = [
    ...(answers.size > 0 ? [] : ["the cluster's DNS leads to the load balancers"]),
    ...(isAsked ? [] : ["the ingress controllers take a PROXY header"]),
  ];
  const missing = [...notRunning(install, namespace), ...incomplete(lacks(), observed)];
  const warnings = [...missing, ...undecided(names, conditions), ...observed.warnings];
  return { ...observed, names, revision: page.known ? page.value.revision : undefined, warnings };
}

/** Says why nothing maps the names there. */
function notRunning({ deployments }: InstallFacts, namespace: string): Reason[] {
  if (!deployments.known) return [];
  const findings = checkComponents(deployments.value, (name) => `Deployment ${namespace}/${name}`);
  const [down] = findings.filter(({ status }) => status === "broken");
  if (findings.every(({ code }) => code === "deployment-missing"))
    return [{ code: "not-installed", text: "Switchback is not installed there; these are the names that it may map" }];
  return down ? [{ code: down.code, text: `Switchback is not running there: ${down.subject}: ${down.evidence}` }] : [];
}

/** A warning about what the file lacks, and one for each kind that the author of a dump could not read. */
function incomplete(lacking: ReturnType<ClusterFile["lacks"]>, { sources }: StatusDocument): Reason[] {
  const unread = sources.filter(({ synced }) => !synced);
  const texts = unread.map(({ name, problems }) => {
    const why = problems.map(({ text }) => text).join("; ") || "not read";
    return `what depends on ${name} is not known: ${why}`;
  });
  if (lacking !== undefined) texts.unshift([lacking.evidence, ...lacking.cures].join("; "));
  return texts.map((text) => ({ code: "dump-incomplete", text }));
}

function undecided(names: FullStatus["names"], conditions: readonly string[]): Reason[] {
  const count = names.filter(({ target, reason }) => target !== undefined && reason === undefined).length;
  if (count === 0 || conditions.length === 0) return [];
  const text = `${count} name${count === 1 ? "" : "s"} would be mapped if ${conditions.join(", and if ")}`;
  return [{ code: "names-undecided", text }];
}
