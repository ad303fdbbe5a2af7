import assert from "node:assert/strict";
import { globSync, lstatSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { imageBundle } from "#tools/release/image/layers.ts";
import { type BuiltImage, buildDockerfile } from "../cluster/buildah.ts";

// buildah builds the unmodified Dockerfile, over a base with this machine's npm. The result must match the release's
// image.

const TOP = join(import.meta.dirname, "..", "..");
const list = JSON.parse(readFileSync(join(TOP, "manifests/image-files.json"), "utf8")) as {
  base: string;
  workdir: string;
  user: string;
  entrypoint: string[];
};

const folder = mkdtempSync(join(tmpdir(), "switchback-dockerfile-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let built: BuiltImage;
before(async () => {
  built = await buildDockerfile(TOP, list.base, folder);
});

test("the Dockerfile builds the same program as the release's image, byte for byte", async () => {
  const architecture = process.arch === "x64" ? "amd64" : "arm64";
  const { entries } = await imageBundle(TOP, architecture);
  const released = entries.map(({ path, content }) => [
    path,
    Buffer.isBuffer(content) ? content.toString("base64") : content,
  ]);
  const paths = globSync(`${list.workdir.slice(1)}/**`, { cwd: built.root });
  const found = paths
    .filter((path) => !lstatSync(join(built.root, path)).isDirectory())
    .map((path) => [path, readFileSync(join(built.root, path)).toString("base64")]);
  assert.ok(released.length > 20);
  assert.deepEqual(Object.fromEntries(found), Object.fromEntries(released));
});

test("the Dockerfile's image has the same run settings as the release's image", () => {
  const { User, WorkingDir, Entrypoint, Env } = built.config;
  assert.deepEqual([User, WorkingDir, Entrypoint], [list.user, list.workdir, list.entrypoint]);
  assert.ok((Env as string[]).includes("NODE_ENV=production"));
});
