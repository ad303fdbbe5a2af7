import { execFileSync } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { run } from "#test/cluster/node/run.ts";
import { ReleaseError } from "../error.ts";
import { npmPackage } from "../image/fetch.ts";
import { MAIN } from "./bundle.ts";
import { NODE_VERSION, type Platform } from "./platforms.ts";
import { signAdHoc } from "./sign-macho.ts";
import { removeSignature } from "./sign-pe.ts";

/**
 * Unpacks Node for a platform into `folder`, from the npm registry or the cache. Returns the path of the program.
 * LICENSE is beside its `bin`, except for Windows. Throws a ReleaseError if the package is not the expected one.
 */
export async function fetchNode({ package: name, integrity, os }: Platform, folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  await run("tar", "-xzf", await npmPackage(name, NODE_VERSION, integrity), "-C", folder);
  return join(folder, "package", "bin", os === "windows" ? "node.exe" : "node");
}

interface ExecutableOptions {
  /** Folder with the bundle and the files in `own`. */
  readonly folder: string;
  /** The files that the program reads, relative to `folder`. */
  readonly own: readonly string[];
  /** Path of the platform's Node. */
  readonly node: string;
  readonly platform: Pick<Platform, "os" | "arch">;
  /** Path of the executable to write. */
  readonly output: string;
}

/**
 * Makes one executable of the bundle in `folder` with Node's own tool
 * (https://nodejs.org/api/single-executable-applications.html). The same input gives the same bytes. Only the
 * executable for the current machine has V8's code cache, which halves the CPU time of a start.
 */
export function makeExecutable({ folder, own, node, platform, output }: ExecutableOptions): void {
  if (process.versions.node !== NODE_VERSION)
    throw new ReleaseError(`the executables need Node ${NODE_VERSION} to be made; this is ${process.version}: npm ci`);
  const settings = {
    // A relative path, because the executable contains it.
    main: MAIN,
    mainFormat: "module",
    executable: node,
    output,
    disableExperimentalSEAWarning: true,
    useCodeCache: isThisMachine(platform),
    // A user may have set NODE_OPTIONS for other programs. It must not end this one.
    execArgvExtension: "none",
    assets: Object.fromEntries(own.map((path) => [path, path])),
  };
  const file = join(folder, "executable.json");
  writeFileSync(file, JSON.stringify(settings));
  // The seed of V8's random numbers, which name things in the code cache. V8 does not compare this flag when it reads
  // the cache.
  execFileSync(process.execPath, ["--random-seed=1", "--build-sea", file], { cwd: folder, stdio: "pipe" });
  if (platform.os === "darwin") writeFileSync(output, signAdHoc(readFileSync(output), "kubectl-switchback"));
  if (platform.os === "windows") {
    const program = readFileSync(output);
    removeSignature(program);
    writeFileSync(output, program);
  }
  chmodSync(output, 0o755);
}

function isThisMachine({ os, arch }: Pick<Platform, "os" | "arch">): boolean {
  const names = { linux: "linux", darwin: "darwin", windows: "win32" } as const;
  return process.platform === names[os] && process.arch === (arch === "amd64" ? "x64" : arch);
}
