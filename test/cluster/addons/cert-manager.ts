import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import type { Cluster } from "../cluster.ts";
import { IMAGES } from "../images.ts";
import { releaseOf } from "../modules.ts";
import { statePath } from "../node/layout.ts";
import { run } from "../node/run.ts";
import { moduleFolder } from "../releases.ts";

export const CERT_MANAGER = "cert-manager";

/**
 * Installs cert-manager with its own Helm chart, with leader election and its own rights. The chart is in the Go
 * module; cert-manager's release process adds the version.
 */
export async function install(cluster: Cluster): Promise<void> {
  const release = releaseOf("cert-manager");
  const chart = statePath("charts", CERT_MANAGER);
  await rm(chart, { recursive: true, force: true });
  await mkdir(chart, { recursive: true });
  await cp(join(await moduleFolder(release), "deploy", "charts", CERT_MANAGER), chart, { recursive: true });
  await run("chmod", "-R", "u+w", chart);
  const description = await readFile(join(chart, "Chart.yaml"), "utf8");
  await writeFile(join(chart, "Chart.yaml"), description.replaceAll("v0.0.0", release.version));
  const values = statePath("charts", `${CERT_MANAGER}.yaml`);
  await writeFile(values, stringify(VALUES));
  const flags = ["--namespace", CERT_MANAGER, "--create-namespace", "--values", values];
  await cluster.helm("upgrade", "--install", CERT_MANAGER, chart, ...flags);
  await cluster.releaseRuns(CERT_MANAGER, CERT_MANAGER);
}

const VALUES = {
  crds: { enabled: true },
  image: image(IMAGES.certManagerController),
  webhook: { image: image(IMAGES.certManagerWebhook) },
  cainjector: { image: image(IMAGES.certManagerCainjector) },
  acmesolver: { image: image(IMAGES.certManagerAcmesolver) },
  // This job would wait for the webhook with a separate command-line program. Here `install` waits instead.
  startupapicheck: { enabled: false },
};

function image(name: string): object {
  const [repository, tag] = name.split(":");
  return { repository, tag, pullPolicy: "Never" };
}
