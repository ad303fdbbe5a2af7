import { createHash } from "node:crypto";
import { access, constants, readdir, rename, rm } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { goBuild, hasGo } from "./build.ts";
import { withLock } from "./lock.ts";
import { type BinaryName, type BinarySource, sourceOf } from "./modules.ts";
import { type Progress, progressLines } from "./progress.ts";

/** Binaries that the integration tests need. */
export const INTEGRATION_BINARIES = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kubectl",
  "helm",
  "coredns",
] as const satisfies readonly BinaryName[];

/**
 * The binary is not ready, and there is no Go to build it with, so that tests that need it cannot run here. The
 * message is one line that says what to do.
 */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
  readonly code = "unavailable";
}

export interface BinaryOptions {
  /**
   * Environment with PATH, KUBEBUILDER_ASSETS, XDG_CACHE_HOME and Go's own settings. Default: this process's
   * environment.
   */
  env?: NodeJS.ProcessEnv;
  progress?: Progress;
}

/**
 * The absolute path of a binary. It comes from `$KUBEBUILDER_ASSETS`, or else from the cache. If it is in neither, Go
 * builds it into the cache, and progress goes to standard error.
 * @throws Unavailable if the binary is in neither and Go is missing; any other error if the build fails
 */
export async function binary(name: BinaryName, options: BinaryOptions = {}): Promise<string> {
  const { env = process.env, progress = progressLines() } = options;
  const ready = await readyBinary(name, env);
  if (ready !== undefined) return ready;
  const source = sourceOf(name, env);
  const folder = folderOf(source, env);
  const path = join(folder, source.name);
  if (!(await hasGo(env))) throw new Unavailable(unavailableReason(name, env));
  await withLock(
    join(folder, `${source.name}.lock`),
    async () => {
      if (!(await isExecutable(path))) await buildInto(source, folder, { env, progress });
    },
    () => progress.status(`${name} ${source.version}: waiting for another process that builds it`),
  );
  return path;
}

/** The path of a binary that needs no build; undefined if a build is needed. */
export async function readyBinary(name: BinaryName, env = process.env): Promise<string | undefined> {
  const given = await fromAssets(name, env);
  if (given !== undefined) return given;
  const source = sourceOf(name, env);
  const path = join(folderOf(source, env), source.name);
  return (await isExecutable(path)) ? path : undefined;
}

function folderOf(source: BinarySource, env: NodeJS.ProcessEnv): string {
  return join(userCache("bin", env), cacheKey(source));
}

/** Provides all binaries in `names`, one after the other, because one Go build already uses every core. */
export async function binaries(names: readonly BinaryName[]): Promise<void> {
  const progress = progressLines();
  for (const name of names) await binary(name, { progress });
}

/** Builds a binary beside its final path and then renames it, so that the final path never has a half-written file. */
async function buildInto(source: BinarySource, folder: string, options: Required<BinaryOptions>): Promise<void> {
  const partial = `${source.name}.partial-`;
  for (const file of await readdir(folder)) {
    if (file.startsWith(partial)) await rm(join(folder, file), { force: true });
  }
  const output = join(folder, `${partial}${process.pid}`);
  try {
    await goBuild(source, output, options);
    await rename(output, join(folder, source.name));
  } finally {
    await rm(output, { force: true });
  }
}

async function fromAssets(name: BinaryName, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  const assets = env.KUBEBUILDER_ASSETS;
  if (assets === undefined || assets === "") return undefined;
  const path = join(assets, name);
  return (await isExecutable(path)) ? path : undefined;
}

function unavailableReason(name: BinaryName, env: NodeJS.ProcessEnv): string {
  const assets = env.KUBEBUILDER_ASSETS;
  const given = assets ? `is not in KUBEBUILDER_ASSETS (${assets})` : "is not built yet, KUBEBUILDER_ASSETS is not set";
  return `${name} ${given}, and there is no "go" on the PATH to build it with (https://go.dev/dl)`;
}

/** A folder of the user's cache. It is outside the checkout, so that a fresh clone finds earlier builds. */
export function userCache(name: string, env = process.env): string {
  return join(env.XDG_CACHE_HOME || join(homedir(), ".cache"), "switchback", name);
}

/**
 * A key that changes with everything that changes the binary: a version, a replaced dependency, a flag, the machine's
 * platform.
 */
function cacheKey(source: BinarySource): string {
  const hash = createHash("sha256").update(source.pins).update(source.flags.join(" ")).digest("hex").slice(0, 8);
  return `${source.module}-${source.version}-${process.platform}-${process.arch}-${hash}`;
}

async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
