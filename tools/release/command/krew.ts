import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { ReleaseError } from "../error.ts";
import { fileHash } from "../file-hash.ts";
import type { Release, ReleasePart } from "../part.ts";
import { archiveName, programName } from "./executables.ts";
import { PLATFORMS } from "./platforms.ts";

const MANIFEST = "krew/switchback.yaml";
/** A name that never resolves (RFC 6761). */
const NOWHERE = "https://downloads.invalid";

/**
 * `krew/switchback.yaml`: the manifest from which kubectl's plugin manager krew installs the executables. Their
 * addresses start with `downloads`. Throws a ReleaseError if the executables are missing.
 */
export const krew: ReleasePart = { name: "krew", make: makeManifest };

async function makeManifest({ out, version, downloads, home }: Release): Promise<readonly string[]> {
  const platforms = PLATFORMS.map(async (platform) => {
    const { os, arch } = platform;
    const archive = archiveName(version, platform);
    return {
      selector: { matchLabels: { os, arch } },
      uri: `${downloads ?? NOWHERE}/${archive}`,
      sha256: await hashOfArchive(join(out, archive)),
      bin: programName(platform),
    };
  });
  const manifest = {
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "switchback" },
    spec: {
      version: `v${version}`,
      ...(home && { homepage: home }),
      shortDescription: "Let pods reach their cluster's own public names",
      description: DESCRIPTION,
      platforms: await Promise.all(platforms),
    },
  };
  const note = downloads === undefined ? "# Made without --downloads: the addresses lead nowhere.\n" : "";
  await mkdir(join(out, "krew"), { recursive: true });
  await writeFile(join(out, MANIFEST), note + stringify(manifest, { lineWidth: 100 }));
  return [MANIFEST];
}

const DESCRIPTION = `Pods that call their own cluster's public names, through an ingress controller that
expects the PROXY protocol, are short-circuited past the load balancer and fail.
"kubectl switchback doctor" says whether a cluster has this problem, and where.
With Switchback installed, it shows which names pods have, and what each waits for.
`;

async function hashOfArchive(path: string): Promise<string> {
  if (!existsSync(path)) throw new ReleaseError(`${path} is missing: make the part executables first`);
  return await fileHash(path);
}
