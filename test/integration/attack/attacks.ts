import { extraModules } from "../../files.ts";
import type { Profile } from "../system-options.ts";
import type { Attack } from "./attack.ts";
import { AMOUNT_ATTACKS } from "./attacks/amounts.ts";
import { CLIENT_ATTACKS } from "./attacks/client.ts";
import { RELAY_ATTACKS } from "./attacks/relay.ts";
import { ROOT_CONTAINER_ATTACKS } from "./attacks/root-container.ts";
import { STATUS_ATTACKS } from "./attacks/status.ts";
import { STOLEN_TOKEN_ATTACKS } from "./attacks/stolen-token.ts";
import { TARGET_ATTACKS } from "./attacks/targets.ts";
import { TENANT_ATTACKS } from "./attacks/tenant.ts";

/** Module `integration/attacks.ts` of an extra. */
interface ExtraAttacks {
  readonly ATTACKS: readonly Attack[];
  /** Sections of the configuration that its attacks need. */
  readonly CONFIG?: object;
}

const added = await extraModules<ExtraAttacks>("integration/attacks.ts");

/** Sections of the stage's configuration that the attacks on extras need. */
export const ADDED_CONFIG: object = Object.assign({}, ...added.map(({ CONFIG }) => CONFIG));

const ATTACKS: readonly Attack[] = [
  ...AMOUNT_ATTACKS,
  ...TENANT_ATTACKS,
  ...TARGET_ATTACKS,
  ...ROOT_CONTAINER_ATTACKS,
  ...CLIENT_ATTACKS,
  ...RELAY_ATTACKS,
  ...STOLEN_TOKEN_ATTACKS,
  ...STATUS_ATTACKS,
  ...added.flatMap(({ ATTACKS: of }) => of),
];

/** The attacks that can be tried on an install of this profile. */
export function attacksOn(profile: Profile): Attack[] {
  return ATTACKS.filter(({ profiles }) => profiles?.includes(profile) ?? true);
}
