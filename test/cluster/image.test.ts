import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { type ImageSpec, withLibraries, writeImage } from "./image.ts";
import { run } from "./node/run.ts";

let folder: string;
let spec: ImageSpec;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "switchback-image-test-"));
  await writeFile(join(folder, "program"), "#!/bin/sh\n", { mode: 0o755 });
  spec = {
    name: "example.test/thing:1",
    layers: [
      { "/bin/program": { from: join(folder, "program") }, "/bin/alias": { link: "program" } },
      { "/etc/text": { text: "hello" } },
    ],
    user: "65532:65532",
    entrypoint: ["/bin/program", "--flag"],
    workingDir: "/etc",
    env: { MODE: "test" },
  };
});

after(async () => {
  await rm(folder, { recursive: true });
});

async function unpacked(name: string): Promise<string> {
  await writeImage(spec, join(folder, `${name}.tar`));
  await run("mkdir", join(folder, name));
  await run("tar", "-C", join(folder, name), "-xf", join(folder, `${name}.tar`));
  return join(folder, name);
}

interface Descriptor {
  digest: string;
  size: number;
  annotations?: Record<string, string>;
}

/** The content of a blob, after a check of its digest and size. */
async function blob(layout: string, { digest, size }: Descriptor): Promise<Buffer> {
  const content = await readFile(join(layout, "blobs", digest.replace(":", "/")));
  assert.equal(`sha256:${createHash("sha256").update(content).digest("hex")}`, digest);
  assert.equal(content.length, size);
  return content;
}

test("index, manifest, config and layers refer to each other by their digests", async () => {
  const layout = await unpacked("whole");
  assert.deepEqual(JSON.parse(await readFile(join(layout, "oci-layout"), "utf8")), { imageLayoutVersion: "1.0.0" });
  const index = JSON.parse(await readFile(join(layout, "index.json"), "utf8")) as { manifests: [Descriptor] };
  const [entry] = index.manifests;
  assert.equal(entry.annotations?.["io.containerd.image.name"], "example.test/thing:1");
  const manifest = JSON.parse(String(await blob(layout, entry))) as { config: Descriptor; layers: Descriptor[] };
  const config = JSON.parse(String(await blob(layout, manifest.config)));
  assert.equal(config.os, "linux");
  assert.deepEqual(config.config, {
    User: "65532:65532",
    Entrypoint: ["/bin/program", "--flag"],
    WorkingDir: "/etc",
    Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "MODE=test"],
  });
  assert.deepEqual(
    config.rootfs.diff_ids,
    manifest.layers.map(({ digest }) => digest),
  );
  const [programs, texts] = manifest.layers as [Descriptor, Descriptor];
  await writeFile(join(folder, "layer.tar"), await blob(layout, programs));
  const listed = await run("tar", "--numeric-owner", "-tvf", join(folder, "layer.tar"));
  assert.match(listed, /^-rwxr-xr-x 0\/0 .* 1970-01-01 .* \.\/bin\/program$/m);
  assert.match(listed, /^l.* \.\/bin\/alias -> program$/m);
  await writeFile(join(folder, "layer.tar"), await blob(layout, texts));
  assert.equal(await run("tar", "-xOf", join(folder, "layer.tar"), "./etc/text"), "hello");
});

test("the same files give the same image", async () => {
  const [one, other] = [await unpacked("one"), await unpacked("other")];
  assert.equal(await readFile(join(one, "index.json"), "utf8"), await readFile(join(other, "index.json"), "utf8"));
});

test("a program comes with the libraries that it is linked to", async () => {
  const layer = await withLibraries({ from: process.execPath, at: "/usr/local/bin/node" });
  assert.deepEqual(layer["/usr/local/bin/node"], { from: process.execPath });
  const paths = Object.keys(layer);
  assert.ok(
    paths.some((path) => path.endsWith("/libc.so.6")),
    paths.join(" "),
  );
  assert.ok(
    paths.some((path) => /\/ld-linux[^/]*$/.test(path)),
    paths.join(" "),
  );
});
