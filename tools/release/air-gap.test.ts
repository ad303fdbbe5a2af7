import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { unpublished } from "#test/fakes/release.ts";
import { airGap } from "./air-gap.ts";
import { manifests } from "./chart/manifests.ts";
import { chart } from "./chart/part.ts";
import { pins } from "./image/base.ts";
import { sbom } from "./image/sbom.ts";
import { sha256 } from "./oci/layout.ts";
import { tarOf } from "./oci/tar.ts";
import type { Release } from "./part.ts";

// Tests of the parts around the image. The image here has a single file, so its digest is known.

const TOP = join(import.meta.dirname, "..", "..");
const DIGEST = `sha256:${"5".repeat(64)}`;
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
const folder = mkdtempSync(join(tmpdir(), "switchback-air-gap-"));
after(() => rmSync(folder, { recursive: true }));

const INDEX = Buffer.from(JSON.stringify({ manifests: [{ digest: DIGEST }] }));
const IMAGE = await tarOf([{ path: "index.json", content: INDEX, mode: 0o644 }], 1);

let made = 0;
function release(registry?: string, more: Partial<Release> = {}): Release {
  const out = join(folder, String(made++));
  mkdirSync(out);
  writeFileSync(join(out, `switchback-image-${version}.tar`), IMAGE);
  return unpublished({ out, version, epochSeconds: 1_700_000_000, registry, ...more });
}
const read = ({ out }: Release, path: string) => readFileSync(join(out, path), "utf8");
const inTar = ({ out }: Release, tar: string, path: string) =>
  execFileSync("tar", ["-xOf", join(out, tar), path], { encoding: "utf8" });

test("the chart has every file of manifests/chart as it is, and the license", async () => {
  const one = release();
  await chart.make(one);
  const unpacked = join(one.out, "unpacked");
  mkdirSync(unpacked);
  execFileSync("tar", ["-xzf", join(one.out, `switchback-${version}.tgz`), "-C", unpacked]);
  rmSync(join(unpacked, "switchback", "LICENSE"));
  execFileSync("diff", ["-r", "--exclude=LICENSE", join(unpacked, "switchback"), join(TOP, "manifests", "chart")]);
});

test("the chart as an artifact has Helm's media types, and the same archive", async () => {
  const one = release();
  await chart.make(one);
  const tar = `switchback-chart-${version}.tar`;
  const [top] = JSON.parse(inTar(one, tar, "index.json")).manifests;
  const { config, layers } = JSON.parse(inTar(one, tar, `blobs/${top.digest.replace(":", "/")}`));
  assert.equal(config.mediaType, "application/vnd.cncf.helm.config.v1+json");
  assert.equal(layers[0].mediaType, "application/vnd.cncf.helm.chart.content.v1.tar+gzip");
  assert.equal(layers[0].digest, sha256(readFileSync(join(one.out, `switchback-${version}.tgz`))));
  const metadata = JSON.parse(inTar(one, tar, `blobs/${config.digest.replace(":", "/")}`));
  assert.deepEqual(metadata, parse(readFileSync(join(TOP, "manifests/chart/Chart.yaml"), "utf8")));
});

test("with a registry, the chart's default image is there, and install.yaml names it by its digest", async () => {
  const one = release("registry.example.com:5000/team");
  await chart.make(one);
  await manifests.make(one);
  const values = execFileSync("tar", ["-xzOf", join(one.out, `switchback-${version}.tgz`), "switchback/values.yaml"]);
  assert.equal(parse(values.toString()).image.repository, "registry.example.com:5000/team/switchback");
  const images = containers(read(one, "install.yaml")).map(({ image }) => image);
  assert.ok(images.length >= 3);
  assert.deepEqual([...new Set(images)], [`registry.example.com:5000/team/switchback@${DIGEST}`]);
});

test("the chart has home and maintainers only if they are given", async () => {
  const metadata = (one: Release) =>
    parse(inTar(one, `switchback-${version}.tgz`, "switchback/Chart.yaml")) as Record<string, unknown>;
  const one = release(undefined, { home: "https://example.com/x", maintainers: ["Ann", "Bo Li <bo@example.com>"] });
  await chart.make(one);
  assert.deepEqual(metadata(one).maintainers, [{ name: "Ann" }, { name: "Bo Li", email: "bo@example.com" }]);
  assert.deepEqual([metadata(one).home, metadata(one).sources], ["https://example.com/x", ["https://example.com/x"]]);
  const other = release();
  await chart.make(other);
  const { home, sources, maintainers } = metadata(other);
  assert.deepEqual([home, sources, maintainers], [undefined, undefined, undefined]);
});

test("with a registry, the chart has Artifact Hub's annotations: images, changes, and the key if known", async () => {
  const annotationsOf = async (more: Partial<Release>) => {
    const one = release("registry.example.com/team", more);
    await chart.make(one);
    const { annotations, icon } = parse(inTar(one, `switchback-${version}.tgz`, "switchback/Chart.yaml"));
    assert.match(icon, /^data:image\/svg\+xml;base64,\S+$/);
    const entries = Object.entries(annotations as Record<string, string>);
    return Object.fromEntries(entries.map(([key, text]) => [key.replace("artifacthub.io/", ""), parse(text)]));
  };
  const fingerprint = "A".repeat(40);
  const { images, changes, signKey, license } = await annotationsOf({
    signKey: `${fingerprint} https://example.com/key`,
  });
  assert.deepEqual(images, [{ name: "switchback", image: `registry.example.com/team/switchback:${version}` }]);
  assert.deepEqual([signKey, license], [{ fingerprint, url: "https://example.com/key" }, "Apache-2.0"]);
  assert.ok(changes.length > 10 && changes.every((one: string) => /^[A-Z\x60][^\n]*\.$/.test(one)), changes.join("\n"));
  assert.equal("signKey" in (await annotationsOf({})), false);
});

test("without a registry, install.yaml is the checkout's", async () => {
  const one = release();
  await manifests.make(one);
  assert.equal(read(one, "install.yaml"), readFileSync(join(TOP, "manifests/install.yaml"), "utf8"));
  assert.deepEqual(parse(read(one, "kustomization.yaml")).resources, ["install.yaml"]);
});

function containers(text: string): readonly { image: string }[] {
  const objects = parseAllDocuments(text).map((document) => document.toJS());
  return objects.flatMap(({ spec }) => spec?.template?.spec?.containers ?? []);
}

test("the bill of materials has Debian's packages, Node with its libraries, and each bundled package", async () => {
  const one = release();
  const files = await sbom.make(one);
  assert.deepEqual(
    files,
    ["amd64", "arm64"].map((architecture) => `switchback-image-${version}-${architecture}.cdx.json`),
  );
  for (const file of files) {
    const { bomFormat, specVersion, serialNumber, metadata, components, dependencies } = JSON.parse(read(one, file));
    assert.deepEqual([bomFormat, specVersion, metadata.timestamp], ["CycloneDX", "1.6", "2023-11-14T22:13:20.000Z"]);
    assert.match(serialNumber, /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const purls: string[] = components.map(({ purl }: { purl?: string }) => purl);
    for (const { name } of pins.debian.packages)
      assert.ok(
        purls.some((purl) => purl?.startsWith(`pkg:deb/debian/${encodeURIComponent(name)}@`)),
        name,
      );
    const node = components.find(({ name }: { name: string }) => name === "node");
    assert.ok(node.components.some(({ name, version }: Record<string, string>) => name === "openssl" && version));
    for (const name of ["valibot", "express", "%40koromix/koffi-linux-"])
      assert.ok(
        purls.some((purl) => purl?.startsWith(`pkg:npm/${name}`)),
        name,
      );
    assert.equal(new Set(dependencies[0].dependsOn).size, components.length, "each has a name of its own");
  }
  assert.notEqual(read(one, files[0] ?? ""), read(one, files[1] ?? ""));
});

test("the air-gap archive has what an installation needs, correct checksums and a page with its files", async () => {
  const one = release();
  await chart.make(one);
  await manifests.make(one);
  await airGap.make(one);
  execFileSync("tar", ["-xf", `switchback-air-gap-${version}.tar`], { cwd: one.out });
  const cwd = join(one.out, `switchback-${version}`);
  const checked = execFileSync("sha256sum", ["--check", "SHA256SUMS"], { cwd, encoding: "utf8" }).trim().split("\n");
  const expected = [
    "INSTALL.md",
    "install.yaml",
    "kustomization.yaml",
    `switchback-${version}.tgz`,
    `switchback-image-${version}.tar`,
  ];
  assert.deepEqual(
    checked,
    expected.map((path) => `${path}: OK`),
  );
  const page = readFileSync(join(cwd, "INSTALL.md"), "utf8");
  const named = page.match(/switchback-[\w.-]+\.(?:tar|tgz)/g) ?? [];
  assert.deepEqual([...new Set(named)].sort(), expected.slice(3));
});

test("an incomplete release gets no air-gap archive", async () => {
  await assert.rejects(airGap.make(release()), /switchback-\S+\.tgz, install\.yaml, kustomization\.yaml: not in/);
});
