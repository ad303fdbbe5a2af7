import { readFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "#test/cluster/node/run.ts";
import type { Release } from "./part.ts";

/** Registry in image names until a registry is known. The kubelet adds it to the chart's default image. */
const NO_REGISTRY = "docker.io/library";

/** `registry.example.com/team/switchback`: without a tag or digest. */
export function imageRepository({ registry }: Pick<Release, "registry">): string {
  return `${registry ?? NO_REGISTRY}/switchback`;
}

/** Placeholder for the registry in the README's commands. */
export const EXAMPLE_REGISTRY = "registry.example.com/team";

/** The README of the checkout. Its commands have the release's registry once that is known. */
export function readmeOf({ source, registry }: Pick<Release, "source" | "registry">): string {
  const text = readFileSync(join(source, "README.md"), "utf8");
  return text.replaceAll(EXAMPLE_REGISTRY, registry ?? EXAMPLE_REGISTRY);
}

/** SECURITY.md of the checkout, with the release's contact once that is known. */
export function securityPolicyOf({ source, securityContact }: Pick<Release, "source" | "securityContact">): string {
  const text = readFileSync(join(source, "SECURITY.md"), "utf8");
  return securityContact === undefined ? text : text.replace(/^( {4})SECURITY_CONTACT .*$/m, `$1${securityContact}`);
}

/** The release file with the image for all architectures. */
export function imageFile({ version }: Pick<Release, "version">): string {
  return `switchback-image-${version}.tar`;
}

/** Digest of the image's index (`sha256:...`), read from the release. */
export async function imageDigest(release: Pick<Release, "out" | "version">): Promise<string> {
  const index = JSON.parse(await run("tar", "-xOf", join(release.out, imageFile(release)), "index.json"));
  return index.manifests[0].digest;
}

/** Name of the chart's file, as `helm package` names it: `switchback-0.1.0.tgz`. */
export function chartFile({ version }: Pick<Release, "version">): string {
  return `switchback-${version}.tgz`;
}
