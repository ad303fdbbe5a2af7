import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join, matchesGlob, relative } from "node:path";
import type { ImageLayer, ImageSpec } from "./image.ts";
import { nodeLayer } from "./images.ts";
import { run } from "./node/run.ts";

const TOP = join(import.meta.dirname, "..", "..");
export const PRODUCT_IMAGE = { repository: "switchback.test/switchback", tag: "e2e" };

/** A source tree of the product, and the tag of its image. */
export interface ProductTree {
  readonly folder: string;
  readonly tag: string;
}
const THIS_TREE: ProductTree = { folder: TOP, tag: PRODUCT_IMAGE.tag };

interface ImageFiles {
  workdir: string;
  user: string;
  build: string[];
  /** Absent in the release before, whose image has the packages as they are installed. */
  buildFiles?: string[];
  entrypoint: string[];
  folders: string[];
  files: string[];
  exclude: string[];
}

/**
 * The image as the Dockerfile of `tree` makes it, from the same list of files, on the pinned Node in place of the base image.
 * Gives `work` the image while the files are there.
 */
export async function withProductImage<T>(work: (image: ImageSpec) => Promise<T>, tree = THIS_TREE): Promise<T> {
  const list = await imageFiles(tree.folder);
  const folder = await mkdtemp(join(tmpdir(), "switchback-image-"));
  try {
    const compiled = await compile(list, tree.folder, folder);
    const at = (path: string) => join(list.workdir, path);
    const files: ImageLayer = {};
    for (const name of await readdir(compiled)) files[at(name)] = { from: join(compiled, name) };
    if (list.buildFiles === undefined) files[at("node_modules")] = { from: await productionDependencies(tree.folder) };
    return await work({
      name: `${PRODUCT_IMAGE.repository}:${tree.tag}`,
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

/**
 * The program as the image has it, in a folder; for a measurement of what a pod needs. `tree`: another checkout than this one, with
 * its own dependencies where they are installed, else this one's. Gives the path of `cli/main.js`.
 */
export async function compileProduct(folder: string, tree = TOP): Promise<string> {
  return join(await compile(await imageFiles(tree), tree, folder), "cli", "main.js");
}

async function imageFiles(top: string): Promise<ImageFiles> {
  return JSON.parse(await readFile(join(top, "manifests", "image-files.json"), "utf8")) as ImageFiles;
}

/** What the Dockerfile's build stage does, with this checkout's compiler, which checks no types. */
async function compile(list: ImageFiles, top: string, folder: string): Promise<string> {
  const wanted = (path: string) => !list.exclude.some((pattern) => matchesGlob(relative(top, path), pattern));
  for (const name of [...list.folders, ...list.files, ...(list.buildFiles ?? ["tsconfig.json"])]) {
    await cp(join(top, name), join(folder, name), { recursive: true, filter: wanted });
  }
  const own = join(top, "node_modules");
  await symlink(existsSync(own) ? own : join(TOP, "node_modules"), join(folder, "node_modules"));
  const [command = "", ...args] = list.build;
  await run("env", "-C", folder, join(TOP, "node_modules", ".bin", command), ...args);
  const compiled = join(folder, list.build[list.build.indexOf("--outDir") + 1] ?? "");
  if (list.buildFiles === undefined) for (const name of list.files) await cp(join(top, name), join(compiled, name));
  return compiled;
}

/** `npm ci --omit=dev`, kept by the lockfile's hash in the user's cache. */
export async function productionDependencies(top: string): Promise<string> {
  const lockfile = await readFile(join(top, "package-lock.json"));
  const hash = createHash("sha256").update(lockfile).digest("hex").slice(0, 16);
  const cache = userCache("dependencies");
  const target = join(cache, hash);
  if (existsSync(target)) return join(target, "node_modules");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "partial-"));
  for (const name of ["package.json", "package-lock.json"]) await cp(join(top, name), join(folder, name));
  const flags = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  await run("npm", "--prefix", folder, "ci", ...flags);
  await rename(folder, target);
  return join(target, "node_modules");
}

/** A folder of the user's cache, which outlives the checkout. */
export function userCache(name: string): string {
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", name);
}
