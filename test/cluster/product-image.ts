import { existsSync } from "node:fs";
import { cp, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, matchesGlob, relative } from "node:path";
import type { ImageLayer, ImageSpec } from "./image.ts";
import { nodeLayer } from "./images.ts";
import { run } from "./node/run.ts";

const TOP = join(import.meta.dirname, "..", "..");
export const PRODUCT_IMAGE = { repository: "switchback.test/switchback", tag: "e2e" };

interface ImageFiles {
  workdir: string;
  user: string;
  build: string[];
  buildFiles: string[];
  entrypoint: string[];
  folders: string[];
  files: string[];
  exclude: string[];
}

/**
 * Builds the image from the same list of files as the Dockerfile, but on the pinned Node instead of the base image.
 * Calls `work` with the image, and deletes the files afterwards.
 */
export async function withProductImage<T>(work: (image: ImageSpec) => Promise<T>): Promise<T> {
  const list = await imageFiles(TOP);
  const folder = await mkdtemp(join(tmpdir(), "switchback-image-"));
  try {
    const compiled = await compile(list, TOP, folder);
    const at = (path: string) => join(list.workdir, path);
    const files: ImageLayer = {};
    for (const name of await readdir(compiled)) files[at(name)] = { from: join(compiled, name) };
    return await work({
      name: `${PRODUCT_IMAGE.repository}:${PRODUCT_IMAGE.tag}`,
      layers: [await nodeLayer(), files],
      user: list.user,
      workingDir: list.workdir,
      entrypoint: list.entrypoint,
      env: { NODE_ENV: "production" },
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function imageFiles(top: string): Promise<ImageFiles> {
  return JSON.parse(await readFile(join(top, "manifests", "image-files.json"), "utf8")) as ImageFiles;
}

/** Does the same as the Dockerfile's build stage, with this checkout's compiler, which does not check types. */
async function compile(list: ImageFiles, top: string, folder: string): Promise<string> {
  const wanted = (path: string) => !list.exclude.some((pattern) => matchesGlob(relative(top, path), pattern));
  for (const name of [...list.folders, ...list.files, ...list.buildFiles]) {
    await cp(join(top, name), join(folder, name), { recursive: true, filter: wanted });
  }
  const own = join(top, "node_modules");
  await symlink(existsSync(own) ? own : join(TOP, "node_modules"), join(folder, "node_modules"));
  const [command = "", ...args] = list.build;
  await run("env", "-C", folder, join(TOP, "node_modules", ".bin", command), ...args);
  return join(folder, list.build[list.build.indexOf("--outDir") + 1] ?? "");
}
