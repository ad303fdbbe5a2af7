import { existsSync } from "node:fs";
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzip } from "../oci/layout.ts";
import { tarOf } from "../oci/tar.ts";
import type { Release, ReleasePart } from "../part.ts";
import { bundleCommand, LICENSES } from "./bundle.ts";
import { fetchNode, makeExecutable } from "./executable.ts";
import { NODE_VERSION, PLATFORMS, type Platform } from "./platforms.ts";
import { zip } from "./zip.ts";

const ABOUT = "EXECUTABLES.md";

/**
 * `kubectl-switchback-VERSION-OS-ARCH.tar.gz` or `.zip`: the command as one file that needs no Node, and that kubectl
 * finds as a plugin. EXECUTABLES.md says how each was tested. Downloads 300 MB from the npm registry.
 */
export const executables: ReleasePart = { name: "executables", make: makeExecutables };

async function makeExecutables(release: Release): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-executables-"));
  try {
    const own = await bundleCommand(release.source, join(folder, "bundle"));
    const names: string[] = [];
    for (const platform of PLATFORMS) {
      release.progress.say(`executable for ${platform.os}/${platform.arch} ...`);
      names.push(await makeArchive(release, platform, folder, own));
    }
    await writeFile(join(release.out, ABOUT), about(release.version));
    return [...names, ABOUT];
  } finally {
    await rm(folder, { recursive: true });
  }
}

async function makeArchive(
  { out, version, epochSeconds }: Release,
  platform: Platform,
  folder: string,
  own: readonly string[],
): Promise<string> {
  const [bundle, files] = [join(folder, "bundle"), join(folder, "node")];
  const output = join(folder, programName(platform));
  const node = await fetchNode(platform, files);
  // All platforms have the same license text. The package for Windows has none, so it comes after another one.
  const license = join(files, "package", "LICENSE");
  if (existsSync(license)) await rename(license, join(folder, "LICENSE-NODE"));
  makeExecutable({ folder: bundle, own, node, platform, output });
  const entry = async (path: string, from: string, mode = 0o644) => ({ path, content: await readFile(from), mode });
  const contents = await Promise.all([
    entry(programName(platform), output, 0o755),
    ...LICENSES.map((name) => entry(name, join(bundle, name))),
    entry("LICENSE-NODE", join(folder, "LICENSE-NODE")),
  ]);
  const name = archiveName(version, platform);
  const isZip = platform.os === "windows";
  await writeFile(
    join(out, name),
    isZip ? zip(contents, epochSeconds) : await gzip(await tarOf(contents, epochSeconds)),
  );
  await rm(files, { recursive: true });
  await rm(output);
  return name;
}

/** Name of the program in the archive. kubectl finds plugins by this name. */
export function programName({ os }: Pick<Platform, "os">): string {
  return os === "windows" ? "kubectl-switchback.exe" : "kubectl-switchback";
}

/** The name of a platform's archive. */
export function archiveName(version: string, { os, arch }: Pick<Platform, "os" | "arch">): string {
  return `kubectl-switchback-${version}-${os}-${arch}.${os === "windows" ? "zip" : "tar.gz"}`;
}

function about(version: string): string {
  const rows = PLATFORMS.map(
    (platform) => `| \`${archiveName(version, platform)}\` | ${platform.seen} | ${platform.signature} |`,
  );
  return `# The command as an executable

One file each, with Node ${NODE_VERSION} inside: \`kubectl-switchback\`, which kubectl finds on the PATH as
\`kubectl switchback\`. It may be renamed to \`switchback\`.

| archive | seen | signature |
|---|---|---|
${rows.join("\n")}

On Linux they need glibc 2.28 or newer, libstdc++ and libatomic. SHA256SUMS has the hash of each. The components
(\`controller\`, \`webhook\`, \`proxy\`, \`agent\`) run from the image: here the relay has its portable engine only,
and the agent cannot confine itself.
`;
}
