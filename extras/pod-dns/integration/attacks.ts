import type { Attack } from "#test/integration/attack/attack.ts";
import { denied, MAP_TRY, NOBODYS_TRIES } from "#test/integration/attack/attacks/stolen-token.ts";
import { NAMESPACE } from "#test/integration/system.ts";

export const ATTACKS: readonly Attack[] = [
  {
    name: "resolver's token",
    by: "stolen token",
    run: async (stage) => await denied(stage, `${NAMESPACE}/switchback-dns`, [...NOBODYS_TRIES, MAP_TRY]),
  },
];
