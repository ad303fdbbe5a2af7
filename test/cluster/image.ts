import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, copyFile, cp, mkdir, mkdtemp, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { run } from "./node/run.ts";

/** The content of one path of an image: a file or folder of the machine, a text, or a link. */
type ImageFile = { from: string } | { text: string; mode?: number } | { link: string };

/** A layer: the content by absolute path in the image. */
export type ImageLayer = Record<string, ImageFile>;

export interface ImageSpec {
  /** Includes a registry and a tag, as pods name it: `switchback.test/pause:1`. */
  name: string;
  layers: ImageLayer[];
  /** `uid:gid` as numbers, so that the kubelet can check `runAsNonRoot` without reading the image's files. */
  user: string;
  entrypoint: string[];
  workingDir?: string;
  env?: Record<string, string>;
}

const ARCHITECTURES: Record<string, string> = { x64: "amd64", arm64: "arm64" };

interface Layer {
  /** Its tar's name in the archive. */
  file: string;
  digest: string;
}

/**
 * Writes an image as `docker save` does (a tar of `manifest.json`, the configuration and a tar for each layer), which
 * `ctr images import` accepts. Files keep their permissions, belong to root and have one fixed time. So the same files
 * always give the same image.
 */
export async function writeImage(spec: ImageSpec, output: string): Promise<void> {
  await mkdir(dirname(output), { recursive: true });
  const folder = await mkdtemp(`${output}.layout-`);
  try {
    const layers: Layer[] = [];
    for (const layer of spec.layers) layers.push(await writeLayer(layer, folder));
    const files = layers.map(({ file }) => file);
    const manifest = [{ Config: "config.json", RepoTags: [spec.name], Layers: files }];
    await writeFile(join(folder, "config.json"), JSON.stringify(imageConfig(spec, layers)));
    await writeFile(join(folder, "manifest.json"), JSON.stringify(manifest));
    await run("tar", "-C", folder, "-cf", `${folder}/image.tar`, "manifest.json", "config.json", ...files);
    await rename(`${folder}/image.tar`, output);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function imageConfig(spec: ImageSpec, layers: Layer[]): object {
  return {
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    os: "linux",
    config: {
      User: spec.user,
      Entrypoint: spec.entrypoint,
      WorkingDir: spec.workingDir ?? "/",
      Env: Object.entries({ PATH: "/usr/local/bin:/usr/bin:/bin", ...spec.env }).map(
        ([key, value]) => `${key}=${value}`,
      ),
    },
    // Layers are not compressed, so a layer's digest is also the digest of its content.
    rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => digest) },
  };
}

async function writeLayer(layer: ImageLayer, folder: string): Promise<Layer> {
  const root = await mkdtemp(join(folder, "root-"));
  await chmod(root, 0o755);
  for (const [path, file] of Object.entries(layer)) await place(join(root, path), file);
  const tar = `${root}.tar`;
  const fixed = ["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--mtime=@0", "--format=gnu"];
  await run("tar", "-C", root, ...fixed, "-cf", tar, ".");
  await rm(root, { recursive: true });
  const hash = createHash("sha256");
  await pipeline(createReadStream(tar), hash);
  return { file: basename(tar), digest: `sha256:${hash.digest("hex")}` };
}

async function place(path: string, file: ImageFile): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 });
  if ("link" in file) return await symlink(file.link, path);
  if ("text" in file) return await writeFile(path, file.text, { mode: file.mode ?? 0o644 });
  if ((await stat(file.from)).isDirectory()) return await cp(file.from, path, { recursive: true });
  await copyFile(file.from, path);
}

/**
 * Layer files for a dynamically linked program and the shared libraries that `ldd` names, at their paths on the
 * machine. You can add further objects that the program loads at run time.
 */
export async function withLibraries(...objects: { from: string; at?: string }[]): Promise<ImageLayer> {
  const layer: ImageLayer = {};
  for (const { from, at = from } of objects) {
    for (const path of librariesIn(await run("ldd", from))) layer[path] = { from: path };
    layer[at] = { from };
  }
  return layer;
}

/** `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)` and `/lib64/ld-linux-x86-64.so.2 (0x...)`. */
function librariesIn(ldd: string): string[] {
  return ldd.split("\n").flatMap((line) => /(?:=> |^\s*)(\/\S+) \(0x/.exec(line)?.[1] ?? []);
}
