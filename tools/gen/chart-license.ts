import { readFile } from "node:fs/promises";
import type { Generator } from "./generator.ts";

/** manifests/chart/LICENSE: a copy, because a packaged chart contains only files of its folder. */
export const chartLicense: Generator = {
  name: "chart-license",
  file: "manifests/chart/LICENSE",
  render: () => readFile(new URL("../../LICENSE", import.meta.url), "utf8"),
};
