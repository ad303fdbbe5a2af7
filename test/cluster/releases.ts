import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/** A published release of a Go program, which is built with its own go.mod and go.sum. */
export interface Release {
  readonly module: string;
  /** Includes the `v`. */
  readonly version: string;
  /**
   * Folders of its repository whose modules cannot be downloaded in the release's version, and the version to use
   * instead.
   */
  readonly instead?: Readonly<Record<string, string>>;
}

const kubernetes = (version: string, instead?: Release["instead"]): Release => ({
  module: "k8s.io/kubernetes",
  version,
  ...(instead && { instead }),
});

/** The newest patch release of each minor that the chart supports, in addition to the version in `modules/`. */
export const KUBERNETES: Readonly<Record<string, Release>> = {
  "1.30": kubernetes("v1.30.14"),
  "1.31": kubernetes("v1.31.14", {
    endpointslice: "v0.31.13",
    "kube-controller-manager": "v0.31.13",
    "kube-proxy": "v0.31.11",
    "kube-scheduler": "v0.31.13",
  }),
  "1.32": kubernetes("v1.32.13", { endpointslice: "v0.32.12" }),
  "1.33": kubernetes("v1.33.13"),
  "1.34": kubernetes("v1.34.4"),
  "1.35": kubernetes("v1.35.4"),
  "1.36": kubernetes("v1.36.3"),
};

/** The newest Helm 3. */
export const HELM_3: Release = { module: "helm.sh/helm/v3", version: "v3.22.0" };

/**
 * A line in the go.mod of Kubernetes that names a module in a folder of its repository. A downloaded module has no
 * such folder.
 */
const STAGED = /=> \.\/staging\/src\/k8s\.io\/(\S+)/g;
/** Only the tests of Kubernetes require this module. */
const FOR_TESTS = /^\tk8s\.io\/sample-apiserver v.*\n/m;

/** Where to run `go build`, and which go.mod it uses. */
export interface ModuleUse {
  cwd: string;
  flags: string[];
}

/**
 * Writes `<name>.mod` and `<name>.sum` into `folder`, with which Go builds a release outside its repository. Where
 * the release's go.mod names a folder of that repository, they name the published version of that module. Go adds the
 * checksums of these modules, and verifies them according to GOSUMDB.
 */
export async function useRelease(
  { module, version, instead = {} }: Release,
  name: string,
  { folder, env }: { folder: string; env: NodeJS.ProcessEnv },
): Promise<ModuleUse> {
  const download = ["mod", "download", "-json", `${module}@${version}`];
  const { stdout } = await promisify(execFile)("go", download, { cwd: folder, env });
  const { Dir: cwd } = JSON.parse(stdout) as { Dir: string };
  const published = (staged: string) => `=> k8s.io/${staged} ${instead[staged] ?? version.replace("v1.", "v0.")}`;
  const goMod = (await readFile(join(cwd, "go.mod"), "utf8")).replace(FOR_TESTS, "");
  const modFile = join(folder, `${name}.mod`);
  await writeFile(
    modFile,
    goMod.replaceAll(STAGED, (_, staged: string) => published(staged)),
  );
  await writeFile(join(folder, `${name}.sum`), await readFile(join(cwd, "go.sum")));
  return { cwd, flags: [`-modfile=${modFile}`, "-mod=mod"] };
}
