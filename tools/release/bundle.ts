import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { build, type Plugin } from "esbuild";
import { bundlePage } from "#extras/dashboard/server/bundle-page.ts";
import { bundledLicenses } from "#manifests/bundle.ts";

/**
 * The first Node version that the npm package supports: the first LTS version of the oldest release line that Node
 * still maintains.
 */
export const OLDEST_NODE = "22.11";

/** Files that the program reads at run time, as in `cli/own-files.ts`. */
const OWN_FILES = ["package.json", "examples/demo/*.yaml", "docs/codes.md", "extras/dashboard/page/index.html"];

const MAIN = "cli/main.js";
const BIN = "cli/bin.js";

/**
 * Writes the npm package with the command of a checkout into `folder`: package.json; `cli/bin.js`; `cli/main.js`, one
 * file that needs no package; the files that it reads; and the licenses. `home`: the page with the package's sources.
 *
 * The file includes everything, even @kubernetes/client-node. As a dependency, that package is 62 MB with its 16
 * packages, which `npx` would download for each new version. Its part that reads a kubeconfig is 0.6 MB. The
 * exception is koffi, whose native code differs by machine. Only the relay's linux engine and the agent's confinement
 * need it, and those run from the image. Here the relay falls back to the portable engine.
 */
export async function bundleCommand(source: string, folder: string, home?: string): Promise<void> {
  const { metafile } = await build({
    absWorkingDir: source,
    entryPoints: ["cli/main.ts"],
    outfile: join(folder, MAIN),
    bundle: true,
    format: "esm",
    platform: "node",
    target: `node${OLDEST_NODE}`,
    plugins: [leaveOutKoffi, shedApiClasses],
    // In a checkout, the command builds some files with esbuild. The release builds them in advance.
    external: ["esbuild"],
    // Keeps names, so that stack traces are readable.
    minifyWhitespace: true,
    minifySyntax: true,
    // If an error is not caught, Node prints the line that threw it.
    lineLimit: 200,
    legalComments: "none",
    // Provides `require` for the CommonJS packages in the bundle.
    banner: { js: `import{createRequire as requireFrom}from"node:module";const require=requireFrom(import.meta.url);` },
    metafile: true,
    logLevel: "warning",
  });
  const copied = OWN_FILES.flatMap((pattern) => globSync(pattern, { cwd: source }));
  for (const path of [...copied, "LICENSE"]) copy(join(source, path), join(folder, path));
  const page = await bundlePage();
  for (const [path, text] of Object.entries(page.files)) writeFileSync(join(folder, path), text);
  writeFileSync(join(folder, BIN), binOfBundle(readFileSync(join(source, BIN), "utf8")), { mode: 0o755 });
  writeFileSync(join(folder, "package.json"), packageJson(source, home));
  writeFileSync(join(folder, "THIRD-PARTY-LICENSES"), bundledLicenses(metafile, page.metafile));
}

/** The first file of the command as in the checkout, except that it starts the bundle. */
function binOfBundle(text: string): string {
  const changed = text.replace("./main.ts", "./main.js");
  if (changed === text) throw new Error(`${BIN} does not start ./main.ts`);
  return changed;
}

/**
 * package.json with the fields that npm and its users need. It has no scripts, and no dependencies, because they are
 * in the bundle. npm compares the repository with the package's provenance.
 */
function packageJson(source: string, home: string | undefined): string {
  const { name, version, description, license, type, bin } = JSON.parse(
    readFileSync(join(source, "package.json"), "utf8"),
  );
  const engines = { node: `>=${OLDEST_NODE}` };
  const repository = home === undefined ? {} : { repository: { type: "git", url: `git+${home}.git` } };
  const all = { name, version, description, license, type, bin, engines, ...repository };
  return `${JSON.stringify(all, undefined, 2)}\n`;
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true });
  cpSync(from, to);
}

const leaveOutKoffi: Plugin = {
  name: "leave-out-koffi",
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^koffi$/ }, ({ path }) => ({ path, namespace: "left-out" }));
    const text = "the command has no system calls (koffi): Switchback's image has";
    onLoad({ filter: /./, namespace: "left-out" }, () => ({
      contents: `throw new Error(${JSON.stringify(text)});export default undefined`,
    }));
  },
};

/**
 * The library does not declare that its 900 files of API classes have no side effects. So all of them would stay, 4.6
 * MB.
 */
const shedApiClasses: Plugin = {
  name: "shed-api-classes",
  setup({ onResolve, resolve }) {
    onResolve({ filter: /./ }, async ({ path, pluginData, ...from }) => {
      const mayBe = from.importer.includes("client-node") || path.startsWith("@kubernetes/client-node");
      if (!mayBe || pluginData === "asked") return undefined;
      const { kind, importer, resolveDir, namespace } = from;
      const found = await resolve(path, {
        kind,
        importer,
        resolveDir,
        namespace,
        pluginData: "asked",
        with: from.with,
      });
      return /client-node[\\/]dist/.test(found.path) ? { ...found, sideEffects: false } : found;
    });
  },
};
