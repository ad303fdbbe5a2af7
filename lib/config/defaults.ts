import { BY_HOSTS } from "#hostmap/delivery.ts";
import type { OnChange } from "#hostmap/on-change.ts";

// Defaults and limits that are needed where the schema is not loaded.

export const DEFAULT_ON_CHANGE: OnChange = "restart";
export const DEFAULT_DELIVERY = BY_HOSTS;
export const DEFAULT_AGENT_SILENCE_SECONDS = 600;
/** Prefixes of external-dns' annotations: its default since version 0.22, then the default before that. */
export const EXTERNAL_DNS_PREFIXES: string[] = ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"];
/**
 * Maximum number of ports of one target, configured or discovered. Readers of the published targets refuse a longer
 * list, because Switchback never writes one.
 */
export const MAX_TARGET_PORTS = 200;
/**
 * Limits on discovered targets and on their ports, including unused ones that are kept. They keep the published
 * document below the size that its readers accept.
 */
export const MAX_FOUND_TARGETS = 1_000;
export const MAX_FOUND_PORTS = 3_000;
/** Reserved target names. With such a name, a front Service would have the name of another Switchback Service. */
export const RESERVED_TARGET_NAMES: readonly string[] = ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"];
