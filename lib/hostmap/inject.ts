import { describeManaged, withoutManaged } from "./managed-aliases.ts";
import { HOSTS_KEY, INJECTED_KEY, OWNED_KEY, REVISION_KEY } from "./metadata-keys.ts";
import { getOrAdd } from "./multi-map.ts";
import { type Packing, packLines, packOnePerAddress } from "./pack.ts";
import type { SelectedHosts } from "./pod-selection.ts";
import type { HostAlias, Reason } from "./types.ts";

/** The additions of an injection: consecutive aliases after the user's, and annotations by full key. */
interface ManagedAliases {
  readonly aliases: readonly HostAlias[];
  readonly annotations: Readonly<Record<string, string>>;
}

/** The desired hostAliases and annotations: the unchanged aliases of the user, then the managed ones. */
export interface Injection {
  readonly userAliases: readonly HostAlias[];
  readonly managed: ManagedAliases;
}

/** Limits of the summary in `switchback.dev/injected`. */
const MAX_GROUPS = 6;
const MAX_GROUP_NAMES = 3;
const MAX_GROUP_BYTES = 120;

/** What most pods of a selection get: they have no alias for its names. Building it takes a sixth of an admission. */
const usual = new WeakMap<SelectedHosts, ManagedAliases>();

/**
 * Plans the injection of a pod, or of a workload's pod template, with these aliases and annotations. Managed aliases of
 * an earlier pass are removed first, so repeated passes give the same result as one pass with the newest map. The
 * user's aliases come first, unchanged and in order. A name that they map is not mapped again.
 */
export function planInjection(
  hostAliases: readonly HostAlias[],
  annotations: Readonly<Record<string, string>>,
  selected: SelectedHosts,
  pack: Packing = packLines,
): Injection {
  const userAliases = withoutManaged(hostAliases, annotations[OWNED_KEY]);
  const taken = takenNames(userAliases, selected);
  const build = () => buildManagedAliases(selected, taken, pack);
  const isUsual = taken.size === 0 && pack === packLines;
  return { userAliases, managed: isUsual ? getOrAdd(usual, selected, build) : build() };
}

/**
 * Plans the injection of a manifest for `kubectl apply`. It has one alias per IP, because apply merges hostAliases by
 * IP, so a line may be too long (`longLineReason`). Returns a reason if the user already has an alias for the IP.
 */
export function planBakedInjection(
  hostAliases: readonly HostAlias[],
  annotations: Readonly<Record<string, string>>,
  selected: SelectedHosts,
): Injection | Reason {
  const plan = planInjection(hostAliases, annotations, selected, packOnePerAddress);
  return sharedAddressReason(plan) ?? plan;
}

/** Builds the managed aliases for the selected names, except those in `taken`. */
function buildManagedAliases(selected: SelectedHosts, taken: ReadonlySet<string>, pack: Packing): ManagedAliases {
  const names = selected.names.filter((name) => !taken.has(name));
  const aliases = pack(names.map((name) => [name, selected.addressesOf(name)] as const));
  return {
    aliases,
    annotations: {
      [INJECTED_KEY]: describeInjected(aliases, selected),
      [REVISION_KEY]: selected.revision,
      [OWNED_KEY]: describeManaged(aliases),
    },
  };
}

/** Returns the selected names that the user's aliases already map. Resolvers ignore case (RFC 4343). */
function takenNames(userAliases: readonly HostAlias[], selected: SelectedHosts): ReadonlySet<string> {
  const taken = new Set<string>();
  for (const { hostnames } of userAliases) {
    for (const hostname of hostnames) {
      const name = hostname.toLowerCase();
      if (selected.has(name)) taken.add(name);
    }
  }
  return taken;
}

function sharedAddressReason({ userAliases, managed }: Injection): Reason | undefined {
  const shared = managed.aliases.find((alias) => userAliases.some(({ ip }) => ip === alias.ip));
  if (shared === undefined) return undefined;
  return {
    code: "address-has-alias",
    text:
      `hostAliases already has an entry for ${shared.ip}, and an applied manifest can have one entry per IP: ` +
      "remove that entry, or add the missing names to it by hand",
  };
}

/** Returns `198.51.100.9 a.example.com b.example.com (+12 more); ...`, with a note if the cap was exceeded. */
function describeInjected(aliases: readonly HostAlias[], selected: SelectedHosts): string {
  const groups = packOnePerAddress(
    aliases.flatMap(({ ip, hostnames }) => hostnames.map((name) => [name, [ip]] as const)),
  );
  const shown = groups.slice(0, MAX_GROUPS).map(describeGroup);
  if (groups.length > MAX_GROUPS) shown.push(`+${groups.length - MAX_GROUPS} more addresses`);
  const text = shown.length === 0 ? "none" : shown.join("; ");
  if (selected.total <= selected.cap) return text;
  return `${text} [only the first ${selected.cap} of ${selected.total} names: choose with ${HOSTS_KEY}]`;
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
