import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/** A published release of a Go module. */
export interface Release {
  readonly module: string;
  /** Includes the `v`. */
  readonly version: string;
  /** Modules that cannot be downloaded in the version that the release names, and the version to use instead. */
  readonly instead?: Readonly<Record<string, string>>;
  /** The release asks for a newer Go than people may have. Go fetches that Go for a build, despite GOTOOLCHAIN. */
  readonly fetchesGo?: true;
}

/** Where to run `go build`, and which go.mod it uses. */
export interface ModuleUse {
  cwd: string;
  flags: string[];
}

/**
 * The folder of a release's source in Go's cache. Go fetches it if it is not there, and verifies it according to
 * GOSUMDB.
 */
export async function moduleFolder(
  { module, version }: Release,
  env: NodeJS.ProcessEnv = process.env,
  cwd = "/",
): Promise<string> {
  const download = ["mod", "download", "-json", `${module}@${version}`];
  // If the download fails, Go prints the reason in the same form.
  const { stdout } = await promisify(execFile)("go", download, { cwd, env }).catch((error: { stdout?: string }) => {
    if (!error.stdout) throw error;
    return { stdout: error.stdout };
  });
  const { Dir, Zip, Error: reason } = JSON.parse(stdout) as { Dir?: string; Zip?: string; Error?: string };
  // If the release asks for a newer Go, an older Go still verifies and unpacks it, and then fails. That is enough to
  // read its files.
  const folder = Dir ?? Zip?.replace("/cache/download/", "/").replace(/\/@v\/(.*)\.zip$/, "@$1");
  if (folder === undefined || !existsSync(folder)) throw new Error(`go ${download.join(" ")}: ${reason}`);
  return folder;
}

/**
 * Writes `<name>.mod` and `<name>.sum` into `folder`, with which Go builds a module where it is: a release in Go's
 * cache, or a folder of ours. A release's own go.mod and go.sum decide about all versions. Go adds the checksums of
 * modules that go.sum lacks, and verifies them according to GOSUMDB.
 */
export async function useModule(
  module: Release | string,
  name: string,
  { folder, env }: { folder: string; env: NodeJS.ProcessEnv },
): Promise<ModuleUse> {
  const isOurs = typeof module === "string";
  const cwd = isOurs ? module : await moduleFolder(module, env, folder);
  const goMod = await readFile(join(cwd, "go.mod"), "utf8");
  const modFile = join(folder, `${name}.mod`);
  await writeFile(modFile, isOurs ? goMod : withoutFolders(goMod, module));
  const sums = join(cwd, "go.sum");
  if (existsSync(sums)) await writeFile(join(folder, `${name}.sum`), await readFile(sums));
  return { cwd, flags: [`-modfile=${modFile}`, "-mod=mod"] };
}

/** A line of a go.mod that replaces a module by a folder of its repository. A downloaded module has no such folder. */
const BY_FOLDER = /^(?:replace )?[ \t]*(\S+) => \.\.?\/.*\n/gm;
/** A line of a go.mod that requires a version that does not exist. Only a folder can replace it. */
const PLACEHOLDER = /^\t(\S+) v0\.0\.0(?: \/\/ indirect)?$/gm;
/** Only the tests of Kubernetes require this module. */
const FOR_TESTS = /^\tk8s\.io\/sample-apiserver v.*\n/m;

/**
 * The go.mod of a release without folders of its repository. A module of such a folder gets the version in `instead`.
 * Without one, it gets the version that the release requires. If that is a placeholder, as in Kubernetes, it gets the
 * release's own version with major 0.
 */
function withoutFolders(goMod: string, { version, instead = {} }: Release): string {
  const text = goMod.replace(FOR_TESTS, "").replaceAll(BY_FOLDER, "");
  const placeholders = Array.from(text.matchAll(PLACEHOLDER), ([, name = ""]) => [name, version.replace("v1.", "v0.")]);
  const versions = { ...Object.fromEntries(placeholders), ...instead };
  const lines = Object.entries(versions).map(([name, other]) => `replace ${name} => ${name} ${other}\n`);
  return text + lines.join("");
}
