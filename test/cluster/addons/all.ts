import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { binaries } from "../binaries.ts";
import type { Cluster } from "../cluster.ts";
import { certManagerImages, clientImages, IMAGES, nginxImage, programImage } from "../images.ts";
import type { BinaryName } from "../modules.ts";
import { statePath } from "../node/layout.ts";
import { importImages } from "../node/up.ts";
import type { Progress } from "../progress.ts";
import { install as installCertManager } from "./cert-manager.ts";
import { install as installInternet } from "./internet.ts";
import { install as installNginx } from "./nginx.ts";
import { installPlain, install as installTraefik } from "./traefik.ts";

export const ADDON_BINARIES = [
  "pebble",
  "pebble-challtestsrv",
  "cert-manager-controller",
  "cert-manager-webhook",
  "cert-manager-cainjector",
  "cert-manager-acmesolver",
  "traefik",
] as const satisfies readonly BinaryName[];

const DONE = statePath("addons.json");

/** Installs all add-ons of this machine's cluster. Does nothing if they are already installed. */
export async function installAddons(cluster: Cluster, progress: Progress): Promise<void> {
  if (existsSync(DONE)) return;
  await binaries(ADDON_BINARIES);
  progress.say("add-ons: the internet, with load balancers, public DNS and an ACME server");
  await installInternet(cluster);
  progress.say("add-ons: images");
  const traefik = await programImage(IMAGES.traefik, "traefik");
  await importImages(
    [traefik, await nginxImage(), ...(await certManagerImages()), ...(await clientImages())],
    progress,
  );
  progress.say("add-ons: cert-manager, Traefik, nginx");
  await Promise.all([
    installCertManager(cluster),
    // One after the other: all three are based on Traefik, and the first installs definitions that the others need.
    installTraefik(cluster)
      .then(() => installNginx(cluster))
      .then(() => installPlain(cluster)),
  ]);
  await writeFile(DONE, JSON.stringify({ since: new Date().toISOString() }));
  progress.say("the add-ons are installed");
}
