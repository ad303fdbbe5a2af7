import { compareNames } from "./hostnames.ts";
import { describeManaged, withoutManaged } from "./managed-aliases.ts";
import { HOSTS_KEY, INJECTED_KEY, OWNED_KEY, REVISION_KEY } from "./metadata-keys.ts";
import { longLineReason, type Packing, packLines, packOnePerAddress } from "./pack.ts";
import type { SelectedHosts } from "./select-hosts.ts";
import type { HostAlias, Reason } from "./types.ts";

/** What injection reads of a pod (or of a workload's pod template). */
export interface PodHosts {
  readonly hostAliases: readonly HostAlias[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** What we add: aliases, which stand next to each other behind the user's, and annotations by full key. */
export interface ManagedAliases {
  readonly aliases: readonly HostAlias[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** How a pod should look: `own`, the user's aliases as they were, then the block's. */
export interface Injection {
  readonly userAliases: readonly HostAlias[];
  readonly managed: ManagedAliases;
}

/** Makes the block for a choice of names, without those in `taken`. */
export type ManagedAliasesBuilder = (chosen: SelectedHosts, taken: readonly string[]) => ManagedAliases;

/** How much of the mapping `switchback.dev/injected` spells out. */
const MAX_GROUPS = 6;
const MAX_GROUP_NAMES = 3;
const MAX_GROUP_BYTES = 120;

/**
 * What a pod gets. Aliases of an earlier pass are taken off first, so that a second pass, also with a newer map, ends where one
 * pass with the newest does. The user's own come first, untouched and in order; a name they map is left alone.
 * `build` is where the cost lies that grows with the names: a caller with many pods passes one that remembers.
 */
export function planInjection(
  pod: PodHosts,
  chosen: SelectedHosts,
  build: ManagedAliasesBuilder = buildManagedAliases,
): Injection {
  const userAliases = withoutManaged(pod.hostAliases, pod.annotations[OWNED_KEY]);
  return { userAliases, managed: build(chosen, takenNames(userAliases, chosen)) };
}

/**
 * The same for a file that goes through `kubectl apply`: one alias an IP, since hostAliases is a map keyed by IP to whatever
 * applies. Refused where that cannot hold the names: a line too long (unless `longLine`), or an IP that the user has an alias for.
 */
export function planBakedInjection(pod: PodHosts, chosen: SelectedHosts, longLine: boolean): Injection | Reason {
  const plan = planInjection(pod, chosen, (names, taken) => buildManagedAliases(names, taken, packOnePerAddress));
  const tooLong = longLine ? undefined : longLineReason(plan.managed.aliases);
  return tooLong ?? sharedAddressReason(plan) ?? plan;
}

/** The block for a choice of names; the reference that any caching builder must equal. */
export function buildManagedAliases(
  chosen: SelectedHosts,
  taken: readonly string[],
  pack: Packing = packLines,
): ManagedAliases {
  const left = new Set(taken);
  const names = left.size === 0 ? chosen.names : chosen.names.filter((name) => !left.has(name));
  const aliases = pack(names.map((name) => [name, chosen.addressesOf(name)] as const));
  return {
    aliases,
    annotations: {
      [INJECTED_KEY]: describeInjected(aliases, chosen),
      [REVISION_KEY]: chosen.revision,
      [OWNED_KEY]: describeManaged(aliases),
    },
  };
}

/** The chosen names that the user's aliases map already, in name order. Resolvers compare without case (RFC 4343). */
function takenNames(userAliases: readonly HostAlias[], chosen: SelectedHosts): readonly string[] {
  if (userAliases.length === 0) return [];
  const mapped = userAliases.flatMap(({ hostnames }) => hostnames.map((name) => name.toLowerCase()));
  return [...new Set(mapped.filter(chosen.has))].sort(compareNames);
}

function sharedAddressReason({ userAliases, managed }: Injection): Reason | undefined {
  const shared = managed.aliases.find((alias) => userAliases.some(({ ip }) => ip === alias.ip));
  if (shared === undefined) return undefined;
  return {
    code: "address-has-alias",
    text:
      `hostAliases has an entry for ${shared.ip} already, and may hold one an IP in an applied file: ` +
      "take the names of that entry out, or add the missing ones to it by hand",
  };
}

/** `198.51.100.9 a.example.com b.example.com (+12 more); ...`, and whether the cap cut it. */
function describeInjected(aliases: readonly HostAlias[], chosen: SelectedHosts): string {
  const groups = packOnePerAddress(
    aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => [name, [ip]] as const)),
  );
  const shown = groups.slice(0, MAX_GROUPS).map(describeGroup);
  if (groups.length > MAX_GROUPS) shown.push(`+${groups.length - MAX_GROUPS} more addresses`);
  const text = shown.length === 0 ? "none" : shown.join("; ");
  if (chosen.total <= chosen.cap) return text;
  return `${text} [only the first ${chosen.cap} of ${chosen.total} names: choose with ${HOSTS_KEY}]`;
}

function describeGroup({ ip, hostnames }: HostAlias): string {
  let text = ip;
  let count = 0;
  for (const name of hostnames.slice(0, MAX_GROUP_NAMES)) {
    if (count > 0 && text.length + 1 + name.length > MAX_GROUP_BYTES) break;
    text += ` ${name}`;
    count += 1;
  }
  const rest = hostnames.length - count;
  return rest > 0 ? `${text} (+${rest} more)` : text;
}
