import { readFileSync } from "node:fs";
import { join } from "node:path";
import { deployment } from "../../cluster/addons/objects.ts";
import type { KubeObject } from "../../cluster/cluster.ts";
import { STACK } from "../../cluster/node/layout.ts";
import { clusterTarget } from "../cluster-target.ts";

/** The clients' command that looks names up. If the cluster may have IPv6, it uses both families. */
export const RESOLVE = STACK === "ipv4" ? "resolve" : "resolve-all";
/** The same for the client on musl, which needs no argument for IPv4 only. */
export const RESOLVE_MUSL = STACK === "ipv4" ? [] : ["all"];

/** The command that runs a program of this folder in an image with only Node. */
export function programCommand(name: "client" | "strict", ...args: string[]): string[] {
  const text = readFileSync(join(import.meta.dirname, `${name}.ts`), "utf8");
  return ["node", "--input-type=module-typescript", "-e", text, ...args];
}

/** The name of Switchback's image in a pod's container. */
export function imageName(): string {
  const { repository, tag } = clusterTarget().image;
  return `${repository}:${tag}`;
}

/** A Deployment with one pod that runs such a program in Switchback's image. */
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
