import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { type UsableBase, usableBase } from "#test/cluster/release-base.ts";
import { pins } from "../image/base.ts";
import type { Descriptor } from "../oci/layout.ts";

// The image as in a release. It is made twice, in environments whose differences must not matter.

const TOP = join(import.meta.dirname, "..", "..", "..");
const EPOCH = 1_700_000_000;
const folder = mkdtempSync(join(tmpdir(), "switchback-image-part-"));
after(() => rmSync(folder, { recursive: true }));
chmodSync(folder, 0o755);

const archive = (name: string) =>
  join(folder, name, `switchback-image-${JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")).version}.tar`);
const layout = join(folder, "layout");

async function release(name: string, umask: string, env: Record<string, string>): Promise<void> {
  const command = `umask ${umask}; exec "$0" "$@"`;
  const args = [
    process.execPath,
    join(TOP, "tools/release/main.ts"),
    "--out",
    join(folder, name),
    "--only",
    "image",
    "--dirty",
    ...base.args,
  ];
  const child = spawn("sh", ["-c", command, ...args], {
    stdio: ["ignore", "ignore", "inherit"],
    // Keeps the machine's own settings for downloads, such as more certificate authorities.
    env: { ...process.env, SOURCE_DATE_EPOCH: String(EPOCH), ...env },
  });
  assert.deepEqual(await once(child, "exit"), [0, null]);
}

let base: UsableBase;

before(async () => {
  base = await usableBase();
  await Promise.all([
    release("one", "022", { TZ: "UTC", LC_ALL: "C" }),
    release("two", "077", { TZ: "Asia/Tokyo", LC_ALL: "C.UTF-8", TMPDIR: mkdtempSync(join(folder, "tmp-")) }),
  ]);
  mkdirSync(layout);
  execFileSync("tar", ["-xf", archive("one"), "-C", layout]);
});

interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}
interface Config {
  readonly architecture: string;
  readonly created: string;
  readonly config: Record<string, unknown>;
  readonly rootfs: { readonly diff_ids: readonly string[] };
  readonly history: readonly unknown[];
}

const digest = (content: Buffer) => `sha256:${createHash("sha256").update(content).digest("hex")}`;

/** The content of a blob. Checks its digest and size. */
function blob({ digest: expected, size }: Descriptor): Buffer {
  const content = readFileSync(join(layout, "blobs", expected.replace(":", "/")));
  assert.deepEqual([digest(content), content.length], [expected, size]);
  return content;
}
const json = <T>(descriptor: Descriptor) => JSON.parse(blob(descriptor).toString()) as T;

const top = () =>
  (JSON.parse(readFileSync(join(layout, "index.json"), "utf8")) as { manifests: [Descriptor] }).manifests[0];
const images = () =>
  json<{ manifests: readonly Descriptor[] }>(top()).manifests.map((entry) => {
    const manifest = json<Manifest>(entry);
    return { platform: entry.platform, manifest, config: json<Config>(manifest.config) };
  });
/** Unpacks the files of an architecture into a folder. */
function unpacked(architecture: string): string {
  const root = mkdtempSync(join(folder, `${architecture}-`));
  chmodSync(root, 0o755);
  const image = images().find(({ platform }) => platform?.architecture === architecture);
  for (const layer of image?.manifest.layers ?? [])
    execFileSync("tar", ["-xz", "-C", root], { input: blob(layer), stdio: ["pipe", "ignore", "inherit"] });
  return root;
}

test("the same checkout gives the same bytes, whatever the time zone, the language and the umask", () => {
  assert.equal(digest(readFileSync(archive("one"))), digest(readFileSync(archive("two"))));
});

test("one index refers to both architectures, and each digest and size matches the content", () => {
  assert.match(top().annotations?.["io.containerd.image.name"] ?? "", /^docker\.io\/library\/switchback:\d/);
  assert.deepEqual(
    images().map(({ platform }) => platform),
    [
      { os: "linux", architecture: "amd64" },
      { os: "linux", architecture: "arm64" },
    ],
  );
  for (const { platform, manifest, config } of images()) {
    assert.equal(config.architecture, platform?.architecture);
    assert.equal(config.history.length, manifest.layers.length);
    assert.deepEqual(
      manifest.layers.map((layer) => digest(gunzipSync(blob(layer)))),
      config.rootfs.diff_ids,
    );
  }
});

test("it runs as an unprivileged user, with the entry point of the Dockerfile", () => {
  const list = JSON.parse(readFileSync(join(TOP, "manifests/image-files.json"), "utf8"));
  for (const { config } of images()) {
    const { User, Entrypoint, WorkingDir, Env } = config.config;
    assert.deepEqual([User, Entrypoint, WorkingDir], [list.user, list.entrypoint, list.workdir]);
    assert.deepEqual(Env, ["PATH=/usr/local/bin:/usr/bin:/bin", "NODE_ENV=production"]);
    assert.equal(config.created, "2023-11-14T22:13:20Z");
  }
});

test("each architecture has less than 60 MB to pull", () => {
  for (const { platform, manifest } of images()) {
    const bytes = manifest.layers.reduce((sum, { size }) => sum + size, 0);
    assert.ok(bytes < 60e6, `${platform?.architecture}: ${bytes} bytes`);
  }
});

test("every file belongs to root, has the time of the release, and only root may write it", () => {
  for (const layer of images().flatMap(({ manifest }) => manifest.layers)) {
    const args = ["-tvz", "--numeric-owner", "--full-time", "--utc"];
    const lines = execFileSync("tar", args, { input: blob(layer), encoding: "utf8" })
      .trim()
      .split("\n");
    const odd = lines.filter(
      (line) => !/^(-rw-r--r--|-rwxr-xr-x|drwxr-xr-x|lrwxrwxrwx) 0\/0 +\d+ 2023-11-14 22:13:20 /.test(line),
    );
    assert.deepEqual(
      odd.filter((line) => !/^drwxrwxrwt 0\/0 +0 2023-11-14 22:13:20 tmp\/$/.test(line)),
      [],
    );
  }
});

test("the program for amd64 starts from the image's own files, as an unprivileged user", {
  skip: (process.getuid?.() !== 0 || process.arch !== "x64") && "takes root, for chroot, and amd64",
}, () => {
  const root = unpacked("amd64");
  const switchback = (...args: string[]) =>
    execFileSync("chroot", ["--userspec=65532:65532", root, "/usr/local/bin/node", "/app/cli/main.js", ...args], {
      encoding: "utf8",
      env: { PATH: process.env.PATH },
    });
  assert.equal(switchback("--version").trim(), JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")).version);
  assert.match(switchback("inject", "--help"), /^Usage: switchback inject/);
  const koffi = `require("/app/node_modules/@koromix/koffi-linux-x64/linux_x64/koffi.node").version`;
  const loaded = execFileSync("chroot", [root, "/usr/local/bin/node", "-p", koffi], {
    encoding: "utf8",
    env: { PATH: process.env.PATH },
  });
  assert.match(loaded, /^\d+\.\d+\.\d+\n$/);
});

test("the programs and libraries for arm64 are built for arm64", () => {
  const root = unpacked("arm64");
  const AARCH64 = 183;
  const koffi = "app/node_modules/@koromix/koffi-linux-arm64/linux_arm64/koffi.node";
  for (const path of ["usr/local/bin/node", "usr/lib/aarch64-linux-gnu/libc.so.6", koffi])
    assert.equal(readFileSync(join(root, path)).readUInt16LE(18), AARCH64, path);
});

test("scanners find Debian and its packages", () => {
  const root = unpacked("amd64");
  assert.match(readFileSync(join(root, "etc/os-release"), "utf8"), /^ID=debian$/m);
  for (const { name, version } of base.debian.packages) {
    const status = readFileSync(join(root, "var/lib/dpkg/status.d", name), "utf8");
    assert.ok(status.startsWith(`Package: ${name}\n`) && status.includes(`\nVersion: ${version}\n`), status);
  }
});

test("the image has the Node version on which the tests run", () => {
  const { devDependencies } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8"));
  assert.equal(pins.node.version, devDependencies.node);
});
