import { writeFileSync } from "node:fs";
import { extraModules } from "../../files.ts";
import type { Profile } from "../system-options.ts";
import type { Attack } from "./attack.ts";
import { AMOUNT_ATTACKS } from "./attacks/amounts.ts";
import { CLIENT_ATTACKS } from "./attacks/client.ts";
import { RELAY_ATTACKS } from "./attacks/relay.ts";
import { STATUS_ATTACKS } from "./attacks/status.ts";
import { STOLEN_TOKEN_ATTACKS } from "./attacks/stolen-token.ts";
import { TARGET_ATTACKS } from "./attacks/targets.ts";
import { TENANT_ATTACKS } from "./attacks/tenant.ts";
import { HOSTILE, NEIGHBOUR } from "./stage.ts";

const KUBELET_HEADER = "# Kubernetes-managed hosts file.\n";
/** A kubelet's default maximum of pods. */
const PODS_OF_A_NODE = 110;

const ROOT_CONTAINER_ATTACKS: readonly Attack[] = [
  hostsFile(
    "hosts file of newlines",
    "1 MB of newlines behind a tagged line",
    () => `10.0.0.1 a # switchback\n${"\n".repeat(1_000_000)}`,
  ),
  hostsFile("hosts file of markers", "20,000 begin markers", () => "# BEGIN switchback\n".repeat(20_000)),
  hostsFile("hosts file of one line", "1 MB without a line's end", () => "10.0.0.1 ".concat("a".repeat(1_000_000))),
];

/** An attack in which every pod of the node except the neighbour's has such a hosts file. */
function hostsFile(name: string, what: string, text: () => string): Attack {
  return {
    name,
    by: "root container",
    async run(stage) {
      const pod = await stage.runPod(NEIGHBOUR, "follows");
      for (let index = 0; index < PODS_OF_A_NODE; index += 1) {
        const uid = await stage.runPod(HOSTILE, `root-${index}`);
        writeFileSync(stage.kubelet.path(uid), KUBELET_HEADER + text());
      }
      const took = await stage.follow(pod);
      await stage.removePods(HOSTILE);
      await stage.removePods(NEIGHBOUR);
      return {
        tried: `${what}, in ${PODS_OF_A_NODE} pods of the node`,
        outcome: `the neighbour's file had a new name after ${took.toFixed(0)} ms`,
      };
    },
  };
}

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
