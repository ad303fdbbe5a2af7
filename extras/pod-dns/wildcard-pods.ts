import type { Config } from "#lib/config/schema.ts";
import { settingsOf } from "#lib/config/sections.ts";
import { POD_DNS_SECTION } from "./config.ts";

/**
 * Describes the pods that get every name below a wildcard, because a resolver answers them all. Undefined without pod
 * DNS.
 */
export function wildcardPods(config: Config): string | undefined {
  return settingsOf(config, POD_DNS_SECTION).enabled ? "pods with pod DNS" : undefined;
}
