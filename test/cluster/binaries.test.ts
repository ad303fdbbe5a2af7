import assert from "node:assert/strict";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, it, test } from "node:test";
import { binary } from "./binaries.ts";
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

/** Like Kubernetes' go.mod: most of its own modules are folders of the repository. */
const REQUIRED = `require (
\tgo.etcd.io/etcd/api/v3 v3.6.16
\tk8s.io/api v0.0.0
\tk8s.io/endpointslice v0.0.0 // indirect
)
`;
const GO_MOD = `${REQUIRED}
replace (
\tgo.etcd.io/etcd/api/v3 => ../api
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/endpointslice => ./staging/src/k8s.io/endpointslice
\tk8s.io/klog/v2 => example.com/klog/v2 v2.0.0
)

replace go.etcd.io/etcd => ./FORBIDDEN_DEPENDENCY
`;

async function executable(path: string, text: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
}

/**
 * A stand-in for Go that finds the source of any release in the folder `source`, runs `script` as a build, and counts
 * its builds. `$output` is the value of `-o`.
 */
async function env(script?: string): Promise<NodeJS.ProcessEnv> {
  const path = join(folder, "path");
  if (script !== undefined) {
    const source = join(folder, "source");
    await mkdir(source);
    await writeFile(join(source, "go.mod"), GO_MOD);
    await writeFile(join(source, "go.sum"), "sums\n");
    const text = `#!/bin/sh
PATH=/bin:/usr/bin
[ "$1" = version ] && exit 0
[ "$1" = mod ] && echo '{"Dir":"${source}"}' && exit 0
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

  it("does not exist after a failed build, and the error shows Go's output", async () => {
    const options = { env: await env('echo half > "$output"; echo "no such module" >&2; exit 1'), progress };
    await assert.rejects(binary("etcd", options), /etcd v\S+: go build ended with 1\nno such module/);
    const [key = ""] = await readdir(join(folder, "switchback", "bin"));
    assert.deepEqual(await readdir(join(folder, "switchback", "bin", key)), ["etcd.mod", "etcd.sum"]);
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
    assert.deepEqual(await readdir(dirname(path)), ["etcd", "etcd.mod", "etcd.sum"]);
  });

  it("is built with its release's go.mod, and with published modules instead of the repository's folders", async () => {
    const given = await env(`pwd > "$output"; chmod +x "$output"`);
    const path = await binary("kube-scheduler", { env: { ...given, TEST_KUBERNETES: "1.31" }, progress });
    assert.match(path, /\/kubernetes-v1\.31\.14-[^/]+\/kube-scheduler$/);
    assert.equal(await readFile(path, "utf8"), `${join(folder, "source")}\n`);
    const replaced = (await readFile(`${path}.mod`, "utf8")).slice(REQUIRED.length).trim().split("\n");
    assert.deepEqual(replaced.slice(0, 3), ["replace (", "\tk8s.io/klog/v2 => example.com/klog/v2 v2.0.0", ")"]);
    assert.ok(replaced.includes("replace k8s.io/api => k8s.io/api v0.31.14"), "a version that does not exist");
    assert.ok(replaced.includes("replace k8s.io/endpointslice => k8s.io/endpointslice v0.31.13"), "see KUBERNETES");
    assert.ok(!replaced.some((line) => line.includes("etcd")), "a version that the release requires");
    assert.equal(await readFile(`${path}.sum`, "utf8"), "sums\n");
    const [build = ""] = await builds();
    assert.ok(build.includes(`-modfile=${path}.mod -mod=mod`), build);
    assert.match(build, /version\.gitVersion=v1\.31\.14 .*version\.gitMinor=31 /);
  });

  it("is unavailable without Go, and one line says what to do", async () => {
    const message = /^kubectl is not built yet, .* "go" on the PATH.*$/;
    await assert.rejects(binary("kubectl", { env: await env(), progress }), { name: "NotHere", message });
  });
});

test("Renovate finds every pinned version", async () => {
  const file = join(import.meta.dirname, "..", "..", ".github", "renovate.json");
  const { customManagers } = JSON.parse(await readFile(file, "utf8"));
  const [pattern = ""] = customManagers[0].matchStrings;
  const text = await readFile(join(import.meta.dirname, "modules.ts"), "utf8");
  const found = Array.from(text.matchAll(new RegExp(pattern, "g")), ({ groups }) => groups?.currentValue);
  assert.deepEqual(found, text.match(/(?<=\bversion: ")[^"]+/g));
  assert.ok(found.includes(sourceOf("etcd").version));
});
