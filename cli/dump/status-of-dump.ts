import { observe } from "#controller/observe.ts";
import type { FullStatus, StatusDocument } from "#controller/status.ts";
import { gatherConfig } from "#doctor/gather-install.ts";
import { gatherNodeAddresses } from "#doctor/gather-nodes.ts";
import type { Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { readLeaderStatus } from "#lib/documents/status-page.ts";
import { readTargets } from "#lib/documents/targets-reader.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import { configSections } from "../extras.ts";
import { statusFrom } from "../status-shape.ts";
import type { Dump } from "./read-dump.ts";

/**
 * Timeout for reading the dump, far longer than 250,000 names take on a busy machine. A source that is stuck ends it
 * earlier.
 */
const WITHIN_MS = 600_000;
/** Short, because a file answers at once. */
const STUCK_MS = 500;

/**
 * Computes the status that a controller would have in the cluster of a dump, with the installed configuration or the
 * default one. What the controller reported about workloads is read from its page in the dump.
 */
export async function statusOfDump({ head, client, lookups }: Dump): Promise<FullStatus> {
  const { namespace, clusterDomain } = head;
  const config = await withoutQuestions(await configOf({ head, client }), client);
  const nodes = await gatherNodeAddresses(client);
  const observed = await observe(lookups.size === 0 ? withoutDns(config) : config, {
    client,
    answers: lookups,
    nodes: nodes.known ? nodes.value : undefined,
    clusterDomain: config.clusterDomain ?? clusterDomain,
    identity: "the dump",
    withinMs: WITHIN_MS,
    stuckMs: STUCK_MS,
  });
  const page = await readLeaderStatus(client, namespace, { key: undefined, parse: statusFrom }).catch(() => undefined);
  const { revision, running } = page ?? {};
  const fronts = withFronts(observed.names);
  const warnings = [...missing(observed), ...fronts.warnings, ...observed.warnings];
  return { ...observed, ...fronts, revision, warnings, ...(running && { running }) };
}

async function configOf({ head, client }: Pick<Dump, "head" | "client">): Promise<Config> {
  const config = await gatherConfig(client, head.namespace, await configSections());
  if (!config.known) throw new SwitchbackError("input-invalid", printable(config.reason.text));
  return { ...(config.value ?? parseConfig({})), namespace: head.namespace };
}

/** Used if the dump has no look-ups: the machine that reads it may have another DNS than the cluster. */
function withoutDns(config: Config): Config {
  return { ...config, policy: { ...config.policy, verifyDns: "off" } };
}

/** Used if the dump has no ports to ask: no proxy has asked an ingress controller there, and a file cannot be asked. */
async function withoutQuestions(config: Config, client: Dump["client"]): Promise<Config> {
  const published = await readTargets(client, config.namespace).catch(() => undefined);
  if (published !== undefined && "targets" in published && published.targets.some(({ ask }) => ask)) return config;
  return { ...config, discovery: { ...config.discovery, detect: false } };
}

/** A warning for each kind that the controller reads and that the dump lacks. */
function missing({ sources }: StatusDocument): Reason[] {
  return sources.flatMap(({ name, synced, problems }) => {
    if (synced) return [];
    const why = problems.map(({ text }) => text).join("; ") || "not read";
    return [{ code: "dump-incomplete", text: `what depends on ${name} is not known: ${why}` }];
  });
}

/**
 * The dump may lack the front Service of a target, as in any cluster without an install. A running controller would
 * create it. So there is one warning, and the target's names are not refused.
 */
function withFronts(names: FullStatus["names"]): Pick<FullStatus, "warnings" | "names"> {
  const targets = new Set<string>();
  const all = names.map((name) => {
    if (name.reason?.code !== "target-without-address") return name;
    targets.add(name.target ?? "");
    return { ...name, reason: undefined };
  });
  if (targets.size === 0) return { warnings: [], names };
  const text = `no front Service of ${[...targets].join(", ")} is in the dump: a running controller would make them`;
  return { warnings: [{ code: "front-not-in-dump", text }], names: all };
}
