import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip as compress } from "node:zlib";
import { type TarEntry, tarOf } from "./tar.ts";

const gzipped = promisify(compress);
const INDEX = "application/vnd.oci.image.index.v1+json";
export const MANIFEST = "application/vnd.oci.image.manifest.v1+json";

/** A reference from one document of an OCI layout to another (image-spec v1, descriptor.md). */
export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly os: string; readonly architecture: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Collects the documents and layers of an OCI image layout, by their digests, and writes them as one archive. */
export class OciLayout {
  readonly #blobs = new Map<string, Buffer>();

  add(content: Buffer, mediaType: string): Descriptor {
    const digest = sha256(content);
    this.#blobs.set(digest.slice("sha256:".length), content);
    return { mediaType, digest, size: content.length };
  }

  /** Adds a document. Its keys keep their order. */
  addJson(value: object, mediaType: string): Descriptor {
    return this.add(Buffer.from(JSON.stringify(value)), mediaType);
  }

  addIndex(manifests: readonly Descriptor[], annotations: Readonly<Record<string, string>>): Descriptor {
    return this.addJson({ schemaVersion: 2, mediaType: INDEX, manifests, annotations }, INDEX);
  }

  /** The layout as a tar archive. Its index.json refers only to `top`. */
  async archive(top: Descriptor, epochSeconds: number): Promise<Buffer> {
    const file = (path: string, content: Buffer): TarEntry => ({ path, content, mode: 0o644 });
    const json = (path: string, value: object) => file(path, Buffer.from(JSON.stringify(value)));
    const blobs = [...this.#blobs].map(([digest, content]) => file(`blobs/sha256/${digest}`, content));
    const index = { schemaVersion: 2, mediaType: INDEX, manifests: [top] };
    return await tarOf(
      [json("oci-layout", { imageLayoutVersion: "1.0.0" }), json("index.json", index), ...blobs],
      epochSeconds,
    );
  }
}

/** The digest as `sha256:` and hexadecimal digits. */
export function sha256(content: Buffer): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/**
 * Compresses with the zlib of the pinned Node, without a time or a name. So the bytes are the same on all machines of
 * an architecture. Level 6, because level 9 takes three times as long for half a percent.
 */
export async function gzip(content: Buffer): Promise<Buffer> {
  return await gzipped(content, { level: 6 });
}
