import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { imageFile, imageRepository } from "../names.ts";
import { type Descriptor, gzip, MANIFEST, OciLayout, sha256 } from "../oci/layout.ts";
import { tarOf } from "../oci/tar.ts";
import type { Release, ReleasePart } from "../part.ts";
import { ARCHITECTURES, type Architecture } from "./base.ts";
import { imageLayers, type Layer } from "./layers.ts";

/** The image for all architectures, as an archive of one OCI layout. */
export const image: ReleasePart = { name: "image", make };

const OCI = "application/vnd.oci.image";

async function make(release: Release): Promise<readonly string[]> {
  const { out, version, epochSeconds } = release;
  const layout = new OciLayout();
  const manifests = await Promise.all(
    ARCHITECTURES.map(async (architecture) => {
      const layers = await imageLayers(release.source, release.debian, architecture);
      return await addManifest(layout, release, architecture, layers);
    }),
  );
  const index = layout.addIndex(manifests, annotations(release));
  const reference = `${imageRepository(release)}:${version}`;
  // containerd and Docker take the name from the first annotation, skopeo and podman from the second.
  const named = { "io.containerd.image.name": reference, "org.opencontainers.image.ref.name": version };
  await writeFile(join(out, imageFile(release)), await layout.archive({ ...index, annotations: named }, epochSeconds));
  return [imageFile(release)];
}

async function addManifest(
  layout: OciLayout,
  release: Release,
  architecture: Architecture,
  layers: readonly Layer[],
): Promise<Descriptor> {
  const tars = await Promise.all(layers.map(({ entries }) => tarOf(entries, release.epochSeconds)));
  const compressed = await Promise.all(tars.map(gzip));
  const descriptors = compressed.map((blob) => layout.add(blob, `${OCI}.layer.v1.tar+gzip`));
  const bytes = descriptors.reduce((sum, { size }) => sum + size, 0);
  release.progress.say(`image for ${architecture}: ${(bytes / 1e6).toFixed(1)} MB compressed`);
  const rootfs = { type: "layers", diff_ids: tars.map(sha256) };
  const config = layout.addJson(
    { ...imageConfig(release), architecture, os: "linux", rootfs, history: history(release, layers) },
    `${OCI}.config.v1+json`,
  );
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config,
    layers: descriptors,
    annotations: annotations(release),
  };
  return { ...layout.addJson(manifest, MANIFEST), platform: { os: "linux", architecture } };
}

/** The configuration as in the Dockerfile, from the same list. */
function imageConfig(release: Release): object {
  const list = JSON.parse(readFileSync(join(release.source, "manifests/image-files.json"), "utf8")) as {
    user: string;
    workdir: string;
    entrypoint: string[];
  };
  return {
    created: created(release),
    config: {
      User: list.user,
      Env: ["PATH=/usr/local/bin:/usr/bin:/bin", "NODE_ENV=production"],
      Entrypoint: list.entrypoint,
      WorkingDir: list.workdir,
      Labels: annotations(release),
    },
  };
}

const history = (release: Release, layers: readonly Layer[]) =>
  layers.map(({ madeOf }) => ({ created: created(release), created_by: madeOf }));

function annotations(release: Release): Readonly<Record<string, string>> {
  return {
    "org.opencontainers.image.title": "switchback",
    "org.opencontainers.image.version": release.version,
    "org.opencontainers.image.licenses": "Apache-2.0",
    ...(release.home && { "org.opencontainers.image.source": release.home }),
    "org.opencontainers.image.created": created(release),
  };
}

const created = ({ epochSeconds }: Release) => new Date(epochSeconds * 1000).toISOString().replace(".000Z", "Z");
