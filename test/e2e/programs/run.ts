import { readFileSync } from "node:fs";
import { join } from "node:path";
import { deployment } from "../../cluster/addons/objects.ts";
import type { KubeObject } from "../../cluster/cluster.ts";
import { STACK } from "../../cluster/node/layout.ts";
import { clusterTarget } from "../cluster-target.ts";

/** The command of the clients that looks names up, in both families where the cluster may have IPv6. */
export const RESOLVE = STACK === "ipv4" ? "resolve" : "resolve-all";
/** The same of the client for musl, which has no word for the first. */
export const RESOLVE_MUSL = STACK === "ipv4" ? [] : ["all"];

/** The command that runs a program of this folder where there is nothing but Node. */
export function programCommand(name: "client" | "strict", ...args: string[]): string[] {
  const text = readFileSync(join(import.meta.dirname, `${name}.ts`), "utf8");
  return ["node", "--input-type=module-typescript", "-e", text, ...args];
}

/** Switchback's image, as a pod's container names it. */
export function imageName(): string {
  const { repository, tag } = clusterTarget().image;
  return `${repository}:${tag}`;
}

/** One pod that runs such a program, in Switchback's image. */
export function programDeployment(namespace: string, name: string, command: string[], more: object = {}): KubeObject {
  return deployment({
    namespace,
    name,
    image: imageName(),
    pullPolicy: clusterTarget().image.pullPolicy,
    command,
    ...more,
  });
}
