import { fileURLToPath } from "node:url";
import type { Metafile } from "esbuild";
import { PAGE } from "./page-files.ts";

interface BuiltPage {
  /** Text by path in the repository. */
  readonly files: Readonly<Record<string, string>>;
  /** Lists the packages whose code is in the files. */
  readonly metafile: Metafile;
}

/** Bundles the page's script and style. This takes a second: at each start in development, and once per release. */
export async function bundlePage(): Promise<BuiltPage> {
  // A released command has the built files, and no esbuild.
  const { build } = await import("esbuild");
  const { outputFiles, metafile } = await build({
    absWorkingDir: fileURLToPath(new URL("../../..", import.meta.url)),
    entryPoints: [
      { in: `${PAGE}/main.tsx`, out: "app" },
      { in: `${PAGE}/style.css`, out: "app" },
    ],
    outdir: "out",
    bundle: true,
    format: "esm",
    platform: "browser",
    target: "es2023",
    minify: true,
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    write: false,
    metafile: true,
    logLevel: "warning",
  });
  const files = outputFiles.map(({ path, text }) => [`${PAGE}/${path.split(/[\\/]/).at(-1)}`, text] as const);
  return { files: Object.fromEntries(files), metafile };
}
