import { join } from "node:path";
import { run } from "#test/cluster/node/run.ts";
import type { Release } from "./part.ts";

/** Where an image is pulled from until a registry is known: the name that the kubelet makes of the chart's default. */
const NO_REGISTRY = "docker.io/library";

/** `registry.example.com/team/switchback`: without a tag or digest. */
export function imageRepository({ registry }: Pick<Release, "registry">): string {
  return `${registry ?? NO_REGISTRY}/switchback`;
}

/** The file of a release that holds the image for all architectures. */
export function imageFile({ version }: Pick<Release, "version">): string {
  return `switchback-image-${version}.tar`;
}

/** `sha256:...` of the image's index, read from the release. */
export async function imageDigest(release: Pick<Release, "out" | "version">): Promise<string> {
  const index = JSON.parse(await run("tar", "-xOf", join(release.out, imageFile(release)), "index.json"));
  return index.manifests[0].digest;
}

/** `switchback-0.1.0.tgz`: as `helm package` names it. */
export function chartFile({ version }: Pick<Release, "version">): string {
  return `switchback-${version}.tgz`;
}
