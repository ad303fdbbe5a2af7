import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { BundledPackage } from "#manifests/bundle.ts";
import { ReleaseError } from "../error.ts";
import type { Release, ReleasePart } from "../part.ts";
import { ARCHITECTURES, type Architecture, type DebianPackage, NODE_PACKAGE, pins } from "./base.ts";
import { imageBundle } from "./layers.ts";

/** The contents of the image, as CycloneDX 1.6: one document per architecture. */
export const sbom: ReleasePart = { name: "sbom", make };

/** A part of the image; a subset of CycloneDX's component. */
interface Component {
  readonly type: "application" | "container" | "library" | "operating-system";
  readonly "bom-ref": string;
  readonly name: string;
  readonly version: string;
  readonly purl?: string;
  readonly cpe?: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
  readonly licenses?: readonly { readonly expression: string }[];
  readonly components?: readonly Component[];
}

async function make(release: Release): Promise<readonly string[]> {
  if (process.versions.node !== pins.node.version)
    throw new ReleaseError(`Node is ${process.versions.node}, and the image has ${pins.node.version}: run it by npm`);
  const files: string[] = [];
  for (const architecture of ARCHITECTURES) {
    const { packages } = await imageBundle(release.source, architecture);
    const file = `switchback-image-${release.version}-${architecture}.cdx.json`;
    await writeFile(join(release.out, file), `${JSON.stringify(document(release, architecture, packages), null, 2)}\n`);
    files.push(file);
  }
  return files;
}

function document(release: Release, architecture: Architecture, packages: readonly BundledPackage[]): object {
  const { version, epochSeconds, debian } = release;
  const integrity = lockedIntegrity(release.source);
  const components = [
    { ...component("operating-system", "debian", debian.release), "bom-ref": "debian" },
    ...debian.packages.map((one) => debianComponent(one, architecture, debian.number)),
    nodeComponent(architecture),
    ...packages.map((one) => npmComponent(one, integrity(one.path))),
  ];
  const image = component("container", "switchback", version);
  return {
    $schema: "http://cyclonedx.org/schema/bom-1.6.schema.json",
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    serialNumber: `urn:uuid:${uuidOf(JSON.stringify([version, architecture, epochSeconds, components]))}`,
    version: 1,
    metadata: {
      timestamp: new Date(epochSeconds * 1000).toISOString(),
      component: { ...image, properties: [{ name: "architecture", value: architecture }] },
    },
    components,
    dependencies: [{ ref: image["bom-ref"], dependsOn: components.map((one) => one["bom-ref"]) }],
  };
}

function component(type: Component["type"], name: string, version: string): Component {
  return { type, "bom-ref": `${name}@${version}`, name, version };
}

/** The component of a Debian package. It has the package's hash, although the image has only some of its files. */
function debianComponent(
  { name, version, sha256 }: DebianPackage,
  architecture: Architecture,
  number: number,
): Component {
  const purl = `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-${number}`;
  const hashes = [{ alg: "SHA-256", content: sha256[architecture] }];
  return { ...component("library", name, version), "bom-ref": purl, purl, hashes };
}

/** Describes Node with the libraries in its program, as the program reports them. */
function nodeComponent(architecture: Architecture): Component {
  const { version, integrity } = pins.node;
  // Entries of `process.versions` that are not libraries: versions of interfaces, and data.
  const others = ["node", "modules", "napi"];
  const inside = Object.entries(process.versions)
    .filter(([name, is]) => is && !others.includes(name))
    .map(([name, is]) => ({ ...component("library", name, is ?? ""), "bom-ref": `node/${name}@${is}` }));
  return {
    ...component("application", "node", version),
    purl: `pkg:npm/${NODE_PACKAGE[architecture]}@${version}`,
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    hashes: [sha512(integrity[architecture])],
    licenses: [{ expression: "MIT" }],
    components: inside,
  };
}

function npmComponent({ name, version, license }: BundledPackage, integrity: string): Component {
  const purl = `pkg:npm/${name.replace("@", "%40")}@${version}`;
  const licenses = [{ expression: license }];
  return { ...component("library", name, version), "bom-ref": purl, purl, hashes: [sha512(integrity)], licenses };
}

function sha512(integrity: string): { alg: string; content: string } {
  return { alg: "SHA-512", content: Buffer.from(integrity.replace("sha512-", ""), "base64").toString("hex") };
}

function lockedIntegrity(source: string): (path: string) => string {
  const { packages } = JSON.parse(readFileSync(join(source, "package-lock.json"), "utf8")) as {
    packages: Record<string, { integrity?: string }>;
  };
  return (path) => {
    const integrity = packages[path]?.integrity;
    if (integrity === undefined) throw new Error(`package-lock.json has no ${path}`);
    return integrity;
  };
}

/** A UUID of version 8 (RFC 9562: custom) from a text, so that the same content has the same UUID. */
function uuidOf(text: string): string {
  const hex = createHash("sha256").update(text).digest("hex");
  const variant = "89ab"[Number.parseInt(hex.charAt(16), 16) % 4];
  const groups = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`];
  return [...groups, hex.slice(20, 32)].join("-");
}
