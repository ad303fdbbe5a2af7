import { airGap } from "./air-gap.ts";
import { manifests } from "./chart/manifests.ts";
import { chart } from "./chart/part.ts";
import { executables } from "./command/executables.ts";
import { krew } from "./command/krew.ts";
import { npmPackage } from "./command/npm-package.ts";
import { image } from "./image/part.ts";
import { sbom } from "./image/sbom.ts";
import { notes } from "./notes.ts";
import type { ReleasePart } from "./part.ts";

/** The parts of a release, in the order in which they are made: a part may read the files of earlier parts. */
export const PARTS: readonly ReleasePart[] = [
  notes,
  image,
  chart,
  manifests,
  sbom,
  npmPackage,
  executables,
  krew,
  airGap,
];
