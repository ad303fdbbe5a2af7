import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "#test/cluster/node/run.ts";
import type { Progress } from "#test/cluster/progress.ts";
import { ReleaseError } from "../error.ts";
import { ARCHITECTURES, type Architecture, type DebianPackage, type DebianPins, pins } from "./base.ts";

/** A server that lists packages, and how apt verifies the lists. */
interface DebianServer {
  readonly address: string;
  /** An option of apt's sources.list. */
  readonly trust: string;
}

const BASE_FILE = join(import.meta.dirname, "base.json");
const BIOME = join(import.meta.dirname, "..", "..", "..", "node_modules", ".bin", "biome");
/** The keys of Debian's releases, including the current and the next one. */
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";
const DEBIAN: DebianServer = { address: "http://deb.debian.org", trust: `signed-by=${KEYRING}` };

/** A version of a package, as apt lists it. */
interface Listed {
  readonly version: string;
  /** Path from the server's root. */
  readonly file: string;
  readonly sha256: string;
}

/** Writes the newest packages to tools/release/image/base.json, and reports the changes. */
export async function refreshBase(progress: Progress): Promise<void> {
  const debian = await newestPackages(pins.debian);
  if (debian === pins.debian) return progress.say("tools/release/image/base.json has the newest packages");
  for (const { name, version } of debian.packages) {
    const before = pins.debian.packages.find((one) => one.name === name)?.version;
    if (version !== before) progress.say(`${name}: ${before} -> ${version}`);
  }
  await writeFile(BASE_FILE, JSON.stringify({ ...pins, debian }));
  await run(BIOME, "format", "--write", BASE_FILE);
}

/**
 * The same packages in the newest version that exists for every architecture, including security updates. Returns
 * `debian` itself if nothing changed. apt downloads and verifies the lists in a separate folder, so the machine's own
 * lists do not change.
 */
export async function newestPackages(debian: DebianPins, server = DEBIAN, now = new Date()): Promise<DebianPins> {
  if (server === DEBIAN && !existsSync(KEYRING))
    throw new ReleaseError(`${KEYRING} is not here: apt-get install debian-archive-keyring`);
  const folder = await mkdtemp(join(tmpdir(), "switchback-debian-"));
  try {
    const apt = await fetchedLists(debian.release, server, folder);
    const packages: DebianPackage[] = [];
    for (const one of debian.packages) packages.push(await newest(one, apt));
    if (JSON.stringify(packages) === JSON.stringify(debian.packages)) return debian;
    const snapshot = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
    return { ...debian, snapshot, packages };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Downloads the lists of this release. Returns the options with which apt's programs use only these lists. */
async function fetchedLists(release: string, { address, trust }: DebianServer, folder: string): Promise<string[]> {
  const at = (path: string) => join(folder, path);
  const source = (path: string) => `deb [${trust} arch=${ARCHITECTURES.join(",")}] ${address}/${path} main\n`;
  await writeFile(at("sources"), source(`debian ${release}`) + source(`debian-security ${release}-security`));
  await writeFile(at("status"), "");
  for (const path of ["state/lists/partial", "cache/archives/partial"]) await mkdir(at(path), { recursive: true });
  const settings = [
    `Dir::Etc::SourceList=${at("sources")}`,
    "Dir::Etc::SourceParts=-",
    `Dir::State=${at("state")}`,
    `Dir::State::status=${at("status")}`,
    `Dir::Cache=${at("cache")}`,
    // apt's own user may not read the folder.
    "APT::Sandbox::User=root",
    "Acquire::Languages=none",
    "Acquire::Retries=3",
    // If a list cannot be downloaded, the packages might not be the newest.
    "APT::Update::Error-Mode=any",
    ...ARCHITECTURES.map((architecture) => `APT::Architectures::=${architecture}`),
  ];
  const options = settings.flatMap((setting) => ["-o", setting]);
  await run("apt-get", ...options, "update", "-q").catch((cause: Error) => {
    throw new ReleaseError(`apt cannot read what ${address} has: ${cause.message}`, { cause });
  });
  return options;
}

async function newest(one: DebianPackage, apt: readonly string[]): Promise<DebianPackage> {
  const listed = new Map<Architecture, readonly Listed[]>();
  for (const architecture of ARCHITECTURES)
    listed.set(architecture, await versionsOf(`${one.name}:${architecture}`, apt));
  const inAll = (wanted: string) => {
    const found = ARCHITECTURES.map((of) => listed.get(of)?.find(({ version }) => version === wanted));
    return found.every((each) => each !== undefined) ? found : undefined;
  };
  for (const { version } of listed.get("amd64") ?? []) {
    const [amd64, arm64] = inAll(version) ?? [];
    if (amd64 === undefined || arm64 === undefined) continue;
    const path = amd64.file.replace(`_${version}_amd64.deb`, "");
    if (`${path}_${version}_arm64.deb` !== arm64.file) throw new ReleaseError(`${amd64.file} and ${arm64.file} differ`);
    return { ...one, version, path, sha256: { amd64: amd64.sha256, arm64: arm64.sha256 } };
  }
  throw new ReleaseError(`Debian has no version of ${one.name} for both of ${ARCHITECTURES.join(", ")}`);
}

/** The versions of a package, the newest first. */
async function versionsOf(name: string, apt: readonly string[]): Promise<readonly Listed[]> {
  const text = await run("apt-cache", ...apt, "show", name).catch((cause: Error) => {
    throw new ReleaseError(`Debian has no ${name}: ${cause.message}`, { cause });
  });
  return text
    .trim()
    .split(/\n{2,}/)
    .map((paragraph) => {
      const field = (called: string) => new RegExp(`^${called}: (.+)$`, "m").exec(paragraph)?.[1] ?? "";
      const file = field("Filename");
      return {
        version: field("Version"),
        file: file.startsWith("pool/updates/") ? `debian-security/${file}` : `debian/${file}`,
        sha256: field("SHA256"),
      };
    });
}
