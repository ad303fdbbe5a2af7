import { writeFileSync } from "node:fs";
import type { Attack } from "../attack.ts";
import { HOSTILE, NEIGHBOUR } from "../stage.ts";

const KUBELET_HEADER = "# Kubernetes-managed hosts file.\n";
/** A kubelet's default maximum of pods. */
const PODS_OF_A_NODE = 110;

export const ROOT_CONTAINER_ATTACKS: readonly Attack[] = [
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
