// Defaults and limits that are needed where the schema is not loaded.

export const DEFAULT_AGENT_SILENCE_SECONDS = 600;
/**
 * Maximum of `restart.dailyBudget`, and of the restarts in the record on a workload. It is one an hour, the longest
 * interval between two restarts that one namespace causes.
 */
export const MAX_DAILY_BUDGET = 24;
/** Longest time, in seconds, after which another replica may take over the Lease. */
export const MAX_LEASE_SECONDS = 3_600;
/** Prefixes of external-dns' annotations: its default since version 0.22, then the default before that. */
export const EXTERNAL_DNS_PREFIXES: string[] = ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"];
/**
 * Maximum number of ports of one target, configured or discovered. Readers of the published targets refuse a longer
 * list, because Switchback never writes one.
 */
export const MAX_TARGET_PORTS = 200;
/**
 * Limits on discovered targets and on their ports, including unused ones that are kept. They keep the published
 * document below the size that its readers accept. `discovery.maxTargets` may be lower.
 */
export const MAX_FOUND_TARGETS = 1_000;
export const MAX_FOUND_PORTS = 2_000;
/** Reserved target names. With such a name, a front Service would have the name of another Switchback Service. */
export const RESERVED_TARGET_NAMES: readonly string[] = ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"];
