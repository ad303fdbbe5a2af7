import { createHash } from "node:crypto";
import { globSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ReleaseError } from "./error.ts";
import { chartFile, imageFile, imageRepository } from "./names.ts";
import { tarOf } from "./oci/tar.ts";
import type { Release, ReleasePart } from "./part.ts";

/** One archive with everything that an installation without downloads needs, and a page with the commands. */
export const airGap: ReleasePart = { name: "air-gap", make };

async function make(release: Release): Promise<readonly string[]> {
  const { out, version, epochSeconds } = release;
  const files = new Map<string, Buffer>([["INSTALL.md", Buffer.from(page(release))]]);
  for (const path of contents(release)) files.set(path, await readFile(join(out, path)));
  const sums = [...files].map(([path, content]) => `${createHash("sha256").update(content).digest("hex")}  ${path}\n`);
  files.set("SHA256SUMS", Buffer.from(sums.join("")));
  const folder = `switchback-${version}`;
  const entries = [...files].map(([path, content]) => ({ path: `${folder}/${path}`, content, mode: 0o644 }));
  const file = `switchback-air-gap-${version}.tar`;
  await writeFile(join(out, file), await tarOf(entries, epochSeconds));
  return [file];
}

/** Files of the earlier parts that an installation needs. The others are for machines that can download. */
function contents({ out, version }: Release): string[] {
  const needed = [imageFile({ version }), chartFile({ version }), "install.yaml", "kustomization.yaml"];
  const further = [
    "NOTES.md",
    `switchback-image-${version}-*.cdx.json`,
    `kubectl-switchback-${version}-linux-*.tar.gz`,
  ];
  const found = new Set(globSync([...needed, ...further], { cwd: out }));
  const missing = needed.filter((path) => !found.has(path));
  if (missing.length > 0)
    throw new ReleaseError(`${missing.join(", ")}: not in ${out}; make the parts before this one too`);
  return [...found].sort();
}

/** The setting that opts cert-manager in and lets Switchback restart its workloads. */
const OPTED_IN = "--set 'config.optIn.namespaces={cert-manager}'";

function page(release: Release): string {
  const { version } = release;
  const [image, chart] = [imageFile(release), chartFile(release)];
  return `# Installing Switchback ${version} without a download

Run these in the folder of this file. They take \`kubectl\`, \`helm\`, and either root on the nodes or a registry that
they can pull from.

1. Check that the files are whole:

       sha256sum --check SHA256SUMS

2. On each node, import the image as ${imageRepository(release)}:${version}:

       sudo ctr --namespace k8s.io images import ${image}

3. Install the chart. List the namespaces whose pods call the cluster's own names: Switchback restarts their
   workloads. On a small cluster, add \`--set profile=small\`:

       helm install switchback ./${chart} --namespace switchback-system --create-namespace ${OPTED_IN}

4. See which names its pods have:

       kubectl --namespace cert-manager describe pods | grep switchback.dev/injected:

To upgrade, steps 1 and 2 of the new release's folder, then there:

    helm upgrade switchback ./${chart} --namespace switchback-system --reset-then-reuse-values

To roll back to the previous release, whose image is still on the nodes:

    helm rollback switchback --namespace switchback-system

To remove it, with another restart of those pods:

    helm uninstall switchback --namespace switchback-system

## Use your own registry
Instead of step 2, run one of these commands with the name of your registry:

    skopeo copy --all oci-archive:${image} docker://registry.example.com/switchback:${version}
    mkdir image && tar -xf ${image} -C image && crane push image registry.example.com/switchback:${version}

In step 3 add \`--set image.repository=registry.example.com/switchback\`.

## Without Helm
Instead of step 3, run \`kubectl apply --server-side -f install.yaml\`, or \`kubectl apply --server-side -k .\` if
kustomization.yaml names your registry.
`;
}
