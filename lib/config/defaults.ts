import { BY_HOSTS } from "#hostmap/delivery.ts";
import type { OnChange } from "#hostmap/on-change.ts";

// Defaults and limits of the schema that are needed where it is not loaded.

export const DEFAULT_ON_CHANGE: OnChange = "restart";
export const DEFAULT_DELIVERY = BY_HOSTS;
export const DEFAULT_AGENT_SILENCE_SECONDS = 600;
/** Of external-dns' annotations: its default from 0.22 on, and the one before. */
export const EXTERNAL_DNS_PREFIXES: string[] = ["external-dns.kubernetes.io/", "external-dns.alpha.kubernetes.io/"];
/**
 * Limit of the ports of one target, configured or discovered. A longer list is not ours: readers of the published
 * targets refuse it.
 */
export const MAX_TARGET_PORTS = 200;
/**
 * Limits of the discovered targets and of their ports, those that are kept unused included: with these the
 * published document stays below what its readers take.
 */
export const MAX_FOUND_TARGETS = 1_000;
export const MAX_FOUND_PORTS = 3_000;
/** Target names that are reserved: the front Service would have the name of another Switchback Service. */
export const RESERVED_TARGET_NAMES: readonly string[] = ["controller", "webhook", "proxy", "agent", "dns-a", "dns-b"];
