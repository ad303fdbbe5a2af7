import type { Profile } from "../system-options.ts";
import type { Attack } from "./attack.ts";
import { CLIENT_ATTACKS } from "./attacks/client.ts";
import { CLUSTER_DNS_ATTACKS } from "./attacks/cluster-dns.ts";
import { RELAY_ATTACKS } from "./attacks/relay.ts";
import { ROOT_CONTAINER_ATTACKS } from "./attacks/root-container.ts";
import { STATUS_ATTACKS } from "./attacks/status.ts";
import { STOLEN_TOKEN_ATTACKS } from "./attacks/stolen-token.ts";
import { TENANT_ATTACKS } from "./attacks/tenant.ts";

const ATTACKS: readonly Attack[] = [
  ...TENANT_ATTACKS,
  ...ROOT_CONTAINER_ATTACKS,
  ...CLIENT_ATTACKS,
  ...RELAY_ATTACKS,
  ...STOLEN_TOKEN_ATTACKS,
  ...STATUS_ATTACKS,
  ...CLUSTER_DNS_ATTACKS,
];

/** The attacks that can be tried on an install of this profile. */
export function attacksOn(profile: Profile): Attack[] {
  return ATTACKS.filter(({ profiles }) => profiles?.includes(profile) ?? true);
}
