import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Population, podAt, uidOf } from "./population.ts";

/** A kubelet's root directory with the hosts file of each pod of a node. */
export function writeHostsFiles(population: Population, node: number, kubeletRoot: string): void {
  mkdirSync(join(kubeletRoot, "pods"), { recursive: true });
  for (let index = node; index < population.pods; index += population.nodes) {
    const directory = join(kubeletRoot, "pods", uidOf("Pod", index));
    mkdirSync(directory);
    const own = `10.64.0.1\t${podAt(population, index).name}`;
    writeFileSync(join(directory, "etc-hosts"), `# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n${own}\n`);
  }
}
