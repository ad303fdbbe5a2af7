import { readFileSync } from "node:fs";
import { join } from "node:path";
import { deployment } from "../../cluster/addons/objects.ts";
import type { KubeObject } from "../../cluster/cluster.ts";
import { PRODUCT_IMAGE } from "../../cluster/images.ts";
import { STACK } from "../../cluster/node/layout.ts";

/** The clients' command that looks names up. If the cluster may have IPv6, it uses both families. */
export const RESOLVE = STACK === "ipv4" ? "resolve" : "resolve-all";
/** The same for the client on musl, which needs no argument for IPv4 only. */
export const RESOLVE_MUSL = STACK === "ipv4" ? [] : ["all"];

/** The command that runs client.ts in an image with only Node. */
export function programCommand(...args: string[]): string[] {
  const text = readFileSync(join(import.meta.dirname, "client.ts"), "utf8");
  return ["node", "--input-type=module-typescript", "-e", text, ...args];
}

/** The name of Switchback's image in a pod's container. Its Node also runs client.ts. */
export const IMAGE_NAME = `${PRODUCT_IMAGE.repository}:${PRODUCT_IMAGE.tag}`;

/** A Deployment with one pod that runs such a program in Switchback's image. */
export function programDeployment(namespace: string, name: string, command: string[], more: object = {}): KubeObject {
  return deployment({ namespace, name, image: IMAGE_NAME, command, ...more });
}
