import { join } from "node:path";
import { pins } from "#tools/release/image/base.ts";
import type { Release } from "#tools/release/part.ts";

/** A release of this checkout without a place of publication, a publisher and a signer. */
export function unpublished(change: Pick<Release, "out" | "version"> & Partial<Release>): Release {
  return {
    epochSeconds: 1,
    source: join(import.meta.dirname, "..", ".."),
    registry: undefined,
    downloads: undefined,
    home: undefined,
    maintainers: [],
    signKey: undefined,
    securityContact: undefined,
    debian: pins.debian,
    progress: { say: () => {}, status: () => {} },
    ...change,
  };
}
