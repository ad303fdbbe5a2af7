import { globSync, lstatSync, mkdirSync, readFileSync, readlinkSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type BundledPackage, bundleProduct } from "#manifests/bundle.ts";
import { run } from "#test/cluster/node/run.ts";
import type { TarEntry } from "../oci/tar.ts";
import { type Architecture, type DebianPackage, type DebianPins, debianFile, NODE_PACKAGE, pins } from "./base.ts";
import { withoutDebugInfo } from "./elf.ts";
import { debianPackage, npmPackage } from "./fetch.ts";

/** A layer, and its source for the image's history. */
export interface Layer {
  readonly entries: readonly TarEntry[];
  readonly madeOf: string;
}

const PASSWD = `root:x:0:0:root:/root:/sbin/nologin
nonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin
`;
const GROUP = `root:x:0:
nonroot:x:65532:
`;

/**
 * The layers of the image for an architecture. The layer that changes least comes first. Downloads files that are not
 * in the user's cache.
 */
export async function imageLayers(
  source: string,
  debian: DebianPins,
  architecture: Architecture,
): Promise<readonly Layer[]> {
  return await inFolder(async (folder) => {
    const bundle = await bundled(source, architecture, folder);
    return [
      {
        entries: await baseFiles(debian, architecture, folder),
        madeOf: `Debian ${debian.release}: ${names(debian.packages)}`,
      },
      { entries: await nodeFiles(architecture, folder), madeOf: `Node ${pins.node.version}` },
      { entries: bundle.entries, madeOf: "switchback" },
    ];
  });
}

/** The files of the last layer, and the npm packages with files in it. */
export async function imageBundle(source: string, architecture: Architecture): Promise<Bundle> {
  return await inFolder((folder) => bundled(source, architecture, folder));
}

interface Bundle {
  readonly entries: readonly TarEntry[];
  readonly packages: readonly BundledPackage[];
}

async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "switchback-release-image-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

const names = (packages: readonly DebianPackage[]) =>
  packages.map(({ name, version }) => `${name} ${version}`).join(", ");

/**
 * The C library and the other libraries that Node links, with the files that a scanner reads; see
 * docs/decisions/0022.
 */
async function baseFiles(debian: DebianPins, architecture: Architecture, folder: string): Promise<TarEntry[]> {
  const entries: TarEntry[] = [
    text("etc/passwd", PASSWD),
    text("etc/group", GROUP),
    text("etc/nsswitch.conf", "hosts: files dns\n"),
    { path: "etc/os-release", content: { link: "../usr/lib/os-release" }, mode: 0o777 },
    ...["bin", "lib", "lib64", "sbin"].map((path) => ({ path, content: { link: `usr/${path}` }, mode: 0o777 })),
    ...["dev", "proc", "sys", "usr/bin", "usr/lib64", "usr/sbin"].map((path) => emptyFolder(path, 0o755)),
    emptyFolder("tmp", 0o1777),
  ];
  for (const one of debian.packages) {
    const { name, version, files } = one;
    const deb = await debianPackage(debianFile(debian, one, architecture));
    const unpacked = join(folder, `deb-${name}`);
    await run("dpkg-deb", "--extract", deb, unpacked);
    for (const pattern of files) entries.push(...found(unpacked, pattern, `${name} ${version}`));
    entries.push(text(`var/lib/dpkg/status.d/${name}`, await run("dpkg-deb", "--field", deb)));
  }
  return entries;
}

async function nodeFiles(architecture: Architecture, folder: string): Promise<TarEntry[]> {
  const unpacked = join(folder, "node");
  const name = NODE_PACKAGE[architecture];
  await unpack(
    await npmPackage(name, pins.node.version, pins.node.integrity[architecture]),
    unpacked,
    "bin/node",
    "LICENSE",
  );
  return [
    { path: "usr/local/bin/node", content: withoutDebugInfo(readFileSync(join(unpacked, "bin/node"))), mode: 0o755 },
    { path: "usr/local/share/doc/node/LICENSE", content: readFileSync(join(unpacked, "LICENSE")), mode: 0o644 },
  ];
}

/** The bundle of this checkout, with the lockfile's version of the package for system calls on this architecture. */
async function bundled(source: string, architecture: Architecture, folder: string): Promise<Bundle> {
  const cpu = architecture === "amd64" ? "x64" : architecture;
  const lock = JSON.parse(readFileSync(join(source, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version: string; integrity: string }>;
  };
  const name = `@koromix/koffi-linux-${cpu}`;
  const locked = lock.packages[`node_modules/${name}`];
  if (locked === undefined) throw new Error(`package-lock.json has no ${name}`);
  const further = join(folder, "further");
  await unpack(await npmPackage(name, locked.version, locked.integrity), join(further, name));
  const output = join(folder, "app");
  const packages = await bundleProduct(output, cpu, further);
  const workdir = (JSON.parse(readFileSync(join(source, "manifests/image-files.json"), "utf8")) as { workdir: string })
    .workdir;
  const entries = found(output, "**", "the bundle").map((entry) => ({
    ...entry,
    path: join(workdir.slice(1), entry.path),
  }));
  return { entries, packages };
}

/** Unpacks an npm package: the paths in `only`, or everything. */
async function unpack(tgz: string, folder: string, ...only: string[]): Promise<void> {
  mkdirSync(folder, { recursive: true });
  await run("tar", "-xzf", tgz, "-C", folder, "--strip-components=1", ...only.map((path) => `package/${path}`));
}

/** Files and links of a folder. Their permissions do not depend on the user who checked out or unpacked them. */
function found(folder: string, pattern: string, what: string): TarEntry[] {
  const entries = globSync(pattern, { cwd: folder })
    .map((path): TarEntry | undefined => {
      const state = lstatSync(join(folder, path));
      if (state.isSymbolicLink()) return { path, content: { link: readlinkSync(join(folder, path)) }, mode: 0o777 };
      if (!state.isFile()) return undefined;
      return { path, content: readFileSync(join(folder, path)), mode: (state.mode & 0o100) === 0 ? 0o644 : 0o755 };
    })
    .filter((entry) => entry !== undefined);
  if (entries.length === 0) throw new Error(`${what} has no ${pattern}`);
  return entries;
}

const text = (path: string, content: string): TarEntry => ({ path, content: Buffer.from(content), mode: 0o644 });
const emptyFolder = (path: string, mode: number): TarEntry => ({ path, content: "folder", mode });
