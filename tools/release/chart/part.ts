import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parse, parseDocument, stringify } from "yaml";
import { run } from "#test/cluster/node/run.ts";
import { ReleaseError } from "../error.ts";
import { chartFile, imageRepository } from "../names.ts";
import { changesOf } from "../notes.ts";
import { gzip, MANIFEST, OciLayout } from "../oci/layout.ts";
import { type TarEntry, tarOf } from "../oci/tar.ts";
import type { Release, ReleasePart } from "../part.ts";

/** The chart as `helm package` packs it, and as the OCI artifact that `helm push` makes of it. */
export const chart: ReleasePart = { name: "chart", make };

const HELM = "application/vnd.cncf.helm";

/** Fields of Chart.yaml that the artifact repeats. */
interface ChartMetadata {
  readonly name: string;
  readonly version: string;
  readonly description: string;
}

async function make(release: Release): Promise<readonly string[]> {
  const { out, version, epochSeconds } = release;
  const chartText = await chartYaml(release);
  const archive = await gzip(await tarOf(await chartFiles(release, chartText), epochSeconds));
  await writeFile(join(out, chartFile(release)), archive);

  const metadata = parse(chartText) as ChartMetadata;
  if (metadata.version !== version)
    throw new ReleaseError(`manifests/chart/Chart.yaml is of version ${metadata.version}, package.json of ${version}`);
  const layout = new OciLayout();
  const config = layout.addJson(metadata, `${HELM}.config.v1+json`);
  const content = layout.add(archive, `${HELM}.chart.content.v1.tar+gzip`);
  const annotations = {
    "org.opencontainers.image.title": metadata.name,
    "org.opencontainers.image.version": version,
    "org.opencontainers.image.description": metadata.description,
    "org.opencontainers.image.created": new Date(epochSeconds * 1000).toISOString().replace(".000Z", "Z"),
  };
  const manifest = { schemaVersion: 2, mediaType: MANIFEST, config, layers: [content], annotations };
  const named = { "org.opencontainers.image.ref.name": version };
  const artifact = await layout.archive({ ...layout.addJson(manifest, MANIFEST), annotations: named }, epochSeconds);
  const file = `switchback-chart-${version}.tar`;
  await writeFile(join(out, file), artifact);
  return [chartFile(release), file];
}

/** The committed files of the chart, in one folder, with the LICENSE of the checkout. */
async function chartFiles(release: Release, chartText: string): Promise<TarEntry[]> {
  const folder = join(release.source, "manifests/chart");
  const paths = (await run("git", "-C", folder, "ls-files", "-z")).split("\0").filter((path) => path !== "");
  const files = new Map<string, Buffer>(paths.map((path) => [path, readFileSync(join(folder, path))]));
  files.set("Chart.yaml", Buffer.from(chartText));
  files.set("LICENSE", readFileSync(join(release.source, "LICENSE")));
  if (release.registry !== undefined) files.set("values.yaml", withRepository(files.get("values.yaml"), release));
  return [...files].map(([path, content]) => ({ path: `switchback/${path}`, content, mode: 0o644 }));
}

/** Chart.yaml, including values that are known only when the release is made. */
async function chartYaml(release: Release): Promise<string> {
  const { source, home, maintainers } = release;
  const people = maintainers.map((one) => {
    const [, name, email] = /^(.*?)(?: <(.*)>)?$/.exec(one) ?? [];
    return { name, ...(email !== undefined && { email }) };
  });
  const further = { ...(home && { home, sources: [home] }), ...(people.length > 0 && { maintainers: people }) };
  const annotations = Object.entries(await annotationsOf(release));
  const text = readFileSync(join(source, "manifests/chart/Chart.yaml"), "utf8");
  if (Object.keys(further).length + annotations.length === 0) return text;
  const document = parseDocument(text);
  for (const [key, value] of Object.entries(further)) document.set(key, document.createNode(value));
  for (const [key, value] of annotations) document.setIn(["annotations", `artifacthub.io/${key}`], stringify(value));
  return document.toString({ lineWidth: 0 });
}

/** Annotations for Artifact Hub (artifacthub.io/docs/topics/annotations/helm). Each value is a YAML text. */
async function annotationsOf(release: Release): Promise<Readonly<Record<string, unknown>>> {
  const { registry, signKey, version } = release;
  const [fingerprint, url] = signKey?.split(" ") ?? [];
  const image = `${imageRepository(release)}:${version}`;
  return {
    ...(registry !== undefined && { images: [{ name: "switchback", image }], changes: await changesOf(release) }),
    ...(url !== undefined && { signKey: { fingerprint, url } }),
  };
}

/** The default values with the image's future repository, so that the chart installs without a setting. */
function withRepository(values: Buffer | undefined, release: Release): Buffer {
  const text = values?.toString() ?? "";
  const changed = text.replace(/^(image:\n(?: +#.*\n)* +repository: )\S+$/m, `$1${imageRepository(release)}`);
  if (changed === text) throw new Error("manifests/chart/values.yaml has no image.repository first under image");
  return Buffer.from(changed);
}
