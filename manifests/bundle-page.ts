import { fileURLToPath } from "node:url";
import { build, type Metafile } from "esbuild";

/** The folder of the page's sources; a bundled command has the built files under the same paths. */
export const PAGE_FOLDER = "extras/dashboard/page";

interface BundledPage {
  /** By name in `PAGE_FOLDER`. */
  readonly files: Readonly<Record<string, string>>;
  readonly metafile: Metafile;
}

/** Bundles the page's script and style. Takes a second, once per start in development, and once per release. */
export async function bundlePage(): Promise<BundledPage> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: fileURLToPath(new URL("..", import.meta.url)),
    entryPoints: [
      { in: `${PAGE_FOLDER}/main.tsx`, out: "app" },
      { in: `${PAGE_FOLDER}/style.css`, out: "app" },
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
  const files = outputFiles.map(({ path, text }) => [path.split(/[\\/]/).at(-1) ?? "", text] as const);
  return { files: Object.fromEntries(files), metafile };
}
