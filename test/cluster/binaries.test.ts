import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { binary, Unavailable } from "./binaries.ts";
import { sourceOf } from "./modules.ts";
import { progressLines } from "./progress.ts";

let folder: string;
let lines: string[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "switchback-binaries-"));
  lines = [];
});
afterEach(() => rm(folder, { recursive: true }));

const progress = progressLines((line) => lines.push(line));

async function executable(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
}

/** A stand-in for Go that runs `script` and counts its builds. `$output` is the value of `-o`. */
async function env(script?: string): Promise<NodeJS.ProcessEnv> {
  const path = join(folder, "path");
  if (script !== undefined) {
    const text = `#!/bin/sh
PATH=/bin:/usr/bin
[ "$1" = version ] && exit 0
echo "$@" >> "${folder}/builds"
while [ "$1" != -o ]; do shift; done
output="$2"
${script}
`;
    await executable(join(path, "go"), text);
  }
  // PATH has only this folder, so that no real Go is found.
  return { PATH: path, XDG_CACHE_HOME: folder };
}

const WRITES_OUTPUT = 'echo "#!/bin/sh" > "$output"; chmod +x "$output"';

async function builds(): Promise<string[]> {
  return (await readFile(join(folder, "builds"), "utf8")).trim().split("\n");
}

describe("a binary", () => {
  it("is built once into a folder for its version, and found there later", async () => {
    const options = { env: await env(WRITES_OUTPUT), progress };
    const path = await binary("etcd", options);
    assert.equal(await binary("etcd", options), path);
    assert.ok(path.startsWith(join(folder, "switchback", "bin", `etcd-${sourceOf("etcd").version}-`)), path);
    assert.equal((await builds()).length, 1);
    assert.match(lines.join(""), /etcd v\S+: built in/);
  });

  it("is built once if two callers ask at the same time", async () => {
    const options = { env: await env(`sleep 0.2; ${WRITES_OUTPUT}`), progress };
    const [one, two] = await Promise.all([binary("etcd", options), binary("etcd", options)]);
    assert.equal(one, two);
    assert.equal((await builds()).length, 1);
  });

  it("is built with the newer Go that its go.mod names, if the module needs it", async () => {
    const given = { ...(await env(`echo "$GOTOOLCHAIN" > "$output"; chmod +x "$output"`)), GOTOOLCHAIN: "local" };
    const options = { env: given, progress };
    assert.equal(await readFile(await binary("external-dns", options), "utf8"), "auto\n");
    assert.equal(await readFile(await binary("etcd", options), "utf8"), "local\n");
  });

  it("does not exist after a failed build, and the error shows Go's output", async () => {
    const options = { env: await env('echo half > "$output"; echo "no such module" >&2; exit 1'), progress };
    await assert.rejects(binary("etcd", options), /etcd v\S+: go build ended with 1\nno such module/);
    const [key = ""] = await readdir(join(folder, "switchback", "bin"));
    assert.deepEqual(await readdir(join(folder, "switchback", "bin", key)), []);
  });

  it("is built again after an earlier process was killed during the build", async () => {
    const options = { env: await env(WRITES_OUTPUT), progress };
    const path = await binary("etcd", options);
    await rm(path);
    await writeFile(join(dirname(path), "etcd.partial-1"), "half");
    await writeFile(join(dirname(path), "etcd.lock"), "1\n");
    const longAgo = new Date(Date.now() - 60_000);
    await utimes(join(dirname(path), "etcd.lock"), longAgo, longAgo);
    assert.equal(await binary("etcd", options), path);
    assert.deepEqual(await readdir(dirname(path)), [basename(path)]);
  });

  it("comes from KUBEBUILDER_ASSETS if it is there", async () => {
    const assets = join(folder, "assets");
    await executable(join(assets, "etcd"), "");
    const options = { env: { ...(await env()), KUBEBUILDER_ASSETS: assets }, progress };
    assert.equal(await binary("etcd", options), join(assets, "etcd"));
    await assert.rejects(binary("helm", options), /helm is not in KUBEBUILDER_ASSETS .*, and there is no "go"/);
  });

  it("is built from a release with its go.mod, and with published modules instead of its folders", async () => {
    const source = join(folder, "source");
    const staged = ["api", "endpointslice"].map((name) => `\tk8s.io/${name} => ./staging/src/k8s.io/${name}`);
    await mkdir(source);
    await writeFile(join(source, "go.mod"), `\tk8s.io/sample-apiserver v0.0.0\n${staged.join("\n")}\n`);
    await writeFile(join(source, "go.sum"), "sums\n");
    const given = await env(`pwd > "$output"; chmod +x "$output"`);
    const go = join(folder, "path", "go");
    const answer = `[ "$1" = mod ] && echo '{"Dir":"${source}"}' && exit 0\n`;
    await executable(go, (await readFile(go, "utf8")).replace("PATH=", `${answer}PATH=`));
    const path = await binary("kube-scheduler", { env: { ...given, TEST_KUBERNETES: "1.31" }, progress });
    assert.match(path, /\/kubernetes-v1\.31\.14-[^/]+\/kube-scheduler$/);
    assert.equal(await readFile(path, "utf8"), `${source}\n`);
    assert.equal(
      await readFile(`${path}.mod`, "utf8"),
      "\tk8s.io/api => k8s.io/api v0.31.14\n\tk8s.io/endpointslice => k8s.io/endpointslice v0.31.13\n",
    );
    assert.equal(await readFile(`${path}.sum`, "utf8"), "sums\n");
    const [build = ""] = await builds();
    assert.ok(build.includes(`-modfile=${path}.mod -mod=mod`), build);
    assert.match(build, /version\.gitVersion=v1\.31\.14 .*version\.gitMinor=31 /);
  });

  it("is unavailable without Go, and one line says what to do", async () => {
    await assert.rejects(binary("kubectl", { env: await env(), progress }), (error: Error) => {
      assert.ok(error instanceof Unavailable);
      assert.equal(error.code, "unavailable");
      assert.match(error.message, /^kubectl is not built yet, KUBEBUILDER_ASSETS is not set.* "go" on the PATH.*$/);
      return true;
    });
  });
});

describe("a source", () => {
  it("has the version from its go.mod, also for the linker", () => {
    const { version, flags, package: goPackage } = sourceOf("kube-apiserver");
    const ldflags = flags.find((flag) => flag.startsWith("-ldflags=")) ?? "";
    assert.match(version, /^v1\.37\.\d+$/);
    assert.equal(goPackage, "k8s.io/kubernetes/cmd/kube-apiserver");
    assert.ok(ldflags.includes(`-X k8s.io/component-base/version.gitVersion=${version}`), ldflags);
    assert.match(ldflags, /version\.gitMajor=1 .*version\.gitMinor=37$/);
  });

  it("is Helm 3 if TEST_HELM says so", () => {
    assert.match(sourceOf("helm", { TEST_HELM: "3" }).version, /^v3\./);
    assert.match(sourceOf("helm", {}).version, /^v4\./);
  });

  it("of external-dns has the same version as its definitions", () => {
    const definitions = readFileSync(join(import.meta.dirname, "modules", "external-dns", "go.mod"), "utf8");
    const { version } = sourceOf("external-dns");
    assert.ok(definitions.includes(` ${version} `), version);
  });

  it("is pinned with its text if the program is ours", () => {
    const { version, pins } = sourceOf("cert-manager-controller");
    assert.match(version, /^v1\.\d+\.\d+$/);
    assert.match(pins, /^module github\.com\/cert-manager\/cert-manager\/.*^package main$/ms);
  });
});
