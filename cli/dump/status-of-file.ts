import { observe } from "#controller/observe.ts";
import type { FullStatus, StatusDocument } from "#controller/status.ts";
import { gatherNodeAddresses } from "#doctor/gather-cluster.ts";
import { gatherConfig, gatherStatus } from "#doctor/gather-install.ts";
import type { Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import { configSections } from "../extras.ts";
import type { ClusterFile } from "./read-file.ts";
import { NOT_IN_FILE } from "./stored-client.ts";

/**
 * Timeout for reading the file, far longer than 250,000 names take on a busy machine. A source that is stuck ends it
 * earlier.
 */
const WITHIN_MS = 600_000;
/** Short, because a file answers at once. */
const STUCK_MS = 500;

/**
 * Computes the status that a controller would have in the cluster of a file, with the installed configuration or the
 * default one. The DNS answers are those that the controller reported. A file answers no other question, so a name
 * whose decision needs one counts as mapped, and a warning says so.
 */
export async function statusOfFile({ head, client, lacks }: ClusterFile): Promise<FullStatus> {
  const installed = await configOf(client, head.namespace);
  const [page, nodes, isAsked] = await Promise.all([
    gatherStatus(client, head.namespace),
    gatherNodeAddresses(client),
    hasAnswers(client, head.namespace),
  ]);
  const resolved = page.known
    ? page.value.names.flatMap(({ name, resolved: all }) => (all ? [[name, all] as const] : []))
    : [];
  const { policy, discovery } = installed;
  const config = {
    ...installed,
    policy: resolved.length > 0 ? policy : { ...policy, verifyDns: "off" as const },
    discovery: isAsked ? discovery : { ...discovery, detect: false },
  };
  const observed = await observe(config, {
    client,
    answers: new Map(resolved),
    nodes: nodes.known ? nodes.value : undefined,
    clusterDomain: config.clusterDomain,
    identity: "the file",
    withinMs: WITHIN_MS,
    stuckMs: STUCK_MS,
  });
  const lacking = lacks();
  const { names, fronts } = withFronts(observed.names);
  const count = names.filter(({ target, reason }) => target !== undefined && reason === undefined).length;
  const conditions = [
    ...(resolved.length > 0 ? [] : ["the cluster's DNS leads them to their load balancers"]),
    ...(isAsked ? [] : ["their ingress controllers take a PROXY header"]),
    ...(fronts.size === 0 ? [] : [`a controller makes the front Services of ${[...fronts].join(", ")}`]),
  ];
  const undecided = `${count} name${count === 1 ? "" : "s"} would be mapped if ${conditions.join(", and if ")}`;
  const warnings = [
    ...(lacking === undefined ? [] : [{ code: "dump-incomplete", text: `${lacking.text}; ${lacking.cure}` }]),
    ...missing(observed),
    ...(count === 0 || conditions.length === 0 ? [] : [{ code: "names-undecided", text: undecided }]),
    ...observed.warnings,
  ];
  return { ...observed, names, revision: page.known ? page.value.revision : undefined, warnings };
}

async function configOf(client: ClusterFile["client"], namespace: string): Promise<Config> {
  const config = await gatherConfig(client, namespace, await configSections());
  if (!config.known && config.reason.code === "config-unreadable")
    throw new SwitchbackError("input-invalid", printable(config.reason.text));
  return { ...((config.known && config.value) || parseConfig({})), namespace };
}

/** Whether proxies have asked an ingress controller there. */
async function hasAnswers(client: ClusterFile["client"], namespace: string): Promise<boolean> {
  const published = await readTargets(client, namespace).catch(() => undefined);
  return published !== undefined && "targets" in published && published.targets.some(({ ask }) => ask);
}

/** A warning for each kind that the controller reads and that the author of the dump could not read. */
function missing({ sources }: StatusDocument): Reason[] {
  return sources.flatMap(({ name, synced, problems }) => {
    const why = problems.map(({ text }) => text).join("; ") || "not read";
    return synced || why.endsWith(NOT_IN_FILE)
      ? []
      : [{ code: "dump-incomplete", text: `what depends on ${name} is not known: ${why}` }];
  });
}

/**
 * The file may lack the front Service of a target, as in any cluster without an install. A running controller would
 * create it, so the target's names are not refused.
 */
function withFronts(names: FullStatus["names"]): { names: FullStatus["names"]; fronts: ReadonlySet<string> } {
  const fronts = new Set<string>();
  const all = names.map((name) => {
    if (name.reason?.code !== "target-without-address") return name;
    fronts.add(name.target ?? "");
    return { ...name, reason: undefined };
  });
  return { names: all, fronts };
}
