import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
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
  entrypoint: string[];
  folders: string[];
  files: string[];
  exclude: string[];
}

/**
 * The image as the Dockerfile makes it, from the same list of files, on the pinned Node in place of the base image. Gives
 * `work` the image while the files are there.
 */
export async function withProductImage<T>(work: (image: ImageSpec) => Promise<T>): Promise<T> {
  const list = await imageFiles();
  const folder = await mkdtemp(join(tmpdir(), "switchback-image-"));
  try {
    const compiled = await compile(list, folder);
    const at = (path: string) => join(list.workdir, path);
    const files: ImageLayer = {};
    for (const name of list.folders) files[at(name)] = { from: join(compiled, name) };
    for (const name of list.files) files[at(name)] = { from: join(TOP, name) };
    return await work({
      name: `${PRODUCT_IMAGE.repository}:${PRODUCT_IMAGE.tag}`,
      layers: [await nodeLayer(), { [at("node_modules")]: { from: await productionDependencies() } }, files],
      user: list.user,
      workingDir: list.workdir,
      entrypoint: list.entrypoint,
      env: { NODE_ENV: "production" },
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The program as the image has it, JavaScript, in a folder; for a measurement of what a pod needs. Gives the path of `cli/main.js`. */
export async function compileProduct(folder: string): Promise<string> {
  return join(await compile(await imageFiles(), folder), "cli", "main.js");
}

async function imageFiles(): Promise<ImageFiles> {
  return JSON.parse(await readFile(join(TOP, "manifests", "image-files.json"), "utf8")) as ImageFiles;
}

/** What the Dockerfile's build stage does. */
async function compile(list: ImageFiles, folder: string): Promise<string> {
  const wanted = (path: string) => !list.exclude.some((pattern) => matchesGlob(relative(TOP, path), pattern));
  for (const name of [...list.folders, "package.json", "tsconfig.json"]) {
    await cp(join(TOP, name), join(folder, name), { recursive: true, filter: wanted });
  }
  await symlink(join(TOP, "node_modules"), join(folder, "node_modules"));
  const [command = "", ...args] = list.build;
  await run("env", "-C", folder, join(TOP, "node_modules", ".bin", command), ...args);
  return join(folder, list.build[list.build.indexOf("--outDir") + 1] ?? "");
}

/** `npm ci --omit=dev`, kept by the lockfile's hash in the user's cache. */
async function productionDependencies(): Promise<string> {
  const lockfile = await readFile(join(TOP, "package-lock.json"));
  const hash = createHash("sha256").update(lockfile).digest("hex").slice(0, 16);
  const cache = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", "dependencies");
  const target = join(cache, hash);
  if (existsSync(target)) return join(target, "node_modules");
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, "partial-"));
  for (const name of ["package.json", "package-lock.json"]) await cp(join(TOP, name), join(folder, name));
  const flags = ["--omit=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  await run("npm", "--prefix", folder, "ci", ...flags);
  await rename(folder, target);
  return join(target, "node_modules");
}
