import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { imageDigest, imageRepository } from "../names.ts";
import type { Release, ReleasePart } from "../part.ts";

/** install.yaml for `kubectl apply --server-side -f`, and a kustomization.yaml for changes. */
export const manifests: ReleasePart = { name: "manifests", make };

/** Matches the image in the chart's default values. */
const DEFAULT_IMAGE = /^( +image: )"?switchback:[^"\s]+"?$/gm;

async function make(release: Release): Promise<readonly string[]> {
  const { out, source, registry, version } = release;
  const before = await readFile(join(source, "manifests/install.yaml"), "utf8");
  const repository = registry === undefined ? "switchback" : imageRepository(release);
  // A name without a registry means an image that was imported on each node. Such an image has no name by digest.
  const image = registry === undefined ? `switchback:${version}` : `${repository}@${await imageDigest(release)}`;
  const text = before.replace(DEFAULT_IMAGE, `$1"${image}"`);
  if (!text.includes(`image: "${image}"`)) throw new Error("manifests/install.yaml has no image to replace");
  await writeFile(join(out, "install.yaml"), text);
  await writeFile(join(out, "kustomization.yaml"), kustomization(repository));
  return ["install.yaml", "kustomization.yaml"];
}

const kustomization = (repository: string) => `# kubectl apply --server-side -k .
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [install.yaml]
# The image as another registry has it:
# images:
#   - name: ${repository}
#     newName: registry.example.com/switchback
`;
