import { cpSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { basename, dirname, join, matchesGlob, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build, type Metafile, type Plugin } from "esbuild";

// `node manifests/bundle.ts --outDir FOLDER`: writes the image's working directory. The Dockerfile, the tests' image
// and the benches all use it. docs/decisions/0021 has the savings of the bundle.

/** Separates two licenses. */
const RULE = `\n${"-".repeat(80)}\n\n`;
const TOP = fileURLToPath(new URL("..", import.meta.url));

interface ImageFiles {
  readonly files: readonly string[];
  /** The program, followed by the scripts of its threads. */
  readonly entryPoints: readonly [string, ...string[]];
  /** Commands with their own bundles. */
  readonly components: readonly string[];
  readonly packages: Readonly<Record<string, readonly string[]>>;
  readonly leftOut: readonly string[];
}

/**
 * Bundles the program of this checkout into `folder`: `cli/main.js` with its chunks and the relay's worker, the
 * packages that cannot be bundled, and all licenses.
 */
export async function bundleProduct(folder: string): Promise<void> {
  const list = JSON.parse(readFileSync(join(TOP, "manifests", "image-files.json"), "utf8")) as ImageFiles;
  const packages = Object.entries(list.packages).map(
    ([name, files]) => [name.replace("ARCH", process.arch), files] as const,
  );
  const external = [...packages.map(([name]) => name), ...list.leftOut];
  const [program, ...scripts] = list.entryPoints;
  const named = scripts.map((path) => ({ in: path, out: basename(path, ".ts") }));
  const metafile = await bundle(folder, external, [{ in: program, out: COMMANDS }]);
  for (const script of named) await bundle(folder, external, [script]);
  for (const name of list.components) await bundle(folder, external, [{ in: program, out: name }], onlyFor(name));
  writeFileSync(join(folder, "cli", "main.js"), launcherOf(list.components));
  const copied = packages.map(([name]) => join("node_modules", name));
  for (const [name, files] of packages) {
    copyPackage(join(TOP, "node_modules", name), files, join(folder, "node_modules", name));
  }
  for (const name of list.files) cpSync(join(TOP, name), join(folder, name));
  writeFileSync(join(folder, "THIRD-PARTY-LICENSES"), licensesOf([...bundledPaths(metafile), ...copied]));
}

/** The bundle that has every command. */
const COMMANDS = "commands";

/** Writes each entry as `cli/OUT.js`. Bundles share equal chunks. */
async function bundle(
  folder: string,
  external: string[],
  entryPoints: { in: string; out: string }[],
  ...plugins: readonly Plugin[]
): Promise<Metafile> {
  const { metafile, outputFiles } = await build({
    absWorkingDir: TOP,
    entryPoints,
    // One folder, because the relay expects its worker beside the chunk that starts it.
    outdir: join(folder, "cli"),
    chunkNames: "[name]-[hash]",
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node26",
    external,
    // Keeps names, so that stack traces are readable.
    minifyWhitespace: true,
    minifySyntax: true,
    legalComments: "none",
    // Provides `require` for the CommonJS packages in the bundle.
    banner: { js: `import{createRequire as requireFrom}from"node:module";const require=requireFrom(import.meta.url);` },
    plugins: [fewMediaTypes, leaveOutUnused, ...plugins],
    metafile: true,
    logLevel: "warning",
    write: false,
  });
  for (const { path, text } of outputFiles) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, withoutNamespaces(text));
  }
  return metafile;
}

const IMPORT = /\bimport(?:\*as ([\w$]+) | ([\w$]+) |(\{[^}]*\}))from"([^"]+)";/g;
const REQUIRE = /\b(?:__)?require\("([^"]+)"\)/g;

/**
 * Rewrites imports of Node's own modules to `process.getBuiltinModule`. For an `import` or a `require`, Node reads
 * every export of the module to build its ES module namespace. That loads modules that nobody uses, and costs each
 * start 15 ms of CPU (`#lib/http/http.ts` has the worst case).
 */
function withoutNamespaces(code: string): string {
  // A bundled module may have its own `process`.
  const get = (name: string) => `globalThis.process.getBuiltinModule("${name}")`;
  return code
    .replaceAll(IMPORT, (whole, namespace, standard, named, from) => {
      if (!isBuiltin(from)) return whole;
      return `const ${namespace ?? standard ?? named.replaceAll(" as ", ":")}=${get(from)};`;
    })
    .replaceAll(REQUIRE, (whole, from) => (isBuiltin(from) ? get(from) : whole));
}

/**
 * Leaves out code that a component's process never imports: other commands, and what the extras add to them. Code
 * that it always imports becomes part of the importing file. esbuild makes a chunk of the code that two imports
 * share. From the bundle of all commands, a component would load 70 to 100 small files instead of 16 to 20. Each file
 * costs a start at least a millisecond of CPU.
 */
function onlyFor(component: string): Plugin {
  const imports = (path: string, importer: string): boolean => {
    const from = relative(TOP, importer);
    if (from === join("cli", "program.ts")) return ["./serve.ts", `./components/${component}.ts`].includes(path);
    return from !== join("cli", "extras.ts") || path.endsWith("/config.ts");
  };
  return {
    name: `only-for-${component}`,
    setup({ onLoad, onResolve }) {
      onLoad({ filter: /[\\/]cli[\\/](program|extras)\.ts$/ }, ({ path: importer }) => {
        const statics: string[] = [];
        const code = readFileSync(importer, "utf8").replaceAll(/await import\("([^"]+)"\)/g, (whole, path) => {
          if (!imports(path, importer)) return whole;
          return `$${statics.push(path)}`;
        });
        const lines = statics.map((path, index) => `import * as $${index + 1} from "${path}";`);
        return { contents: lines.join("") + code, loader: "ts" };
      });
      onResolve({ filter: /^[.#]/ }, ({ kind, path, importer }) =>
        kind === "dynamic-import" && !imports(path, importer) ? { path, external: true } : undefined,
      );
    },
  };
}

/** The text of cli/main.js: `node cli/main.js COMMAND` runs it. */
function launcherOf(components: readonly string[]): string {
  return `#!/usr/bin/env node
const name = process.argv[2];
await import("./" + (${JSON.stringify(components)}.includes(name) ? name : "${COMMANDS}") + ".js");
`;
}

/**
 * The only media types that the bundle keeps of Express's libraries. The libraries know 2,500, and the others would
 * take a megabyte of memory.
 */
const MEDIA_TYPES = ["application/json", "application/octet-stream", "text/html", "text/plain"];

const fewMediaTypes: Plugin = {
  name: "few-media-types",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]mime-db[\\/]db\.json$/ }, ({ path }) => {
      const all = JSON.parse(readFileSync(path, "utf8")) as Record<string, unknown>;
      const few = Object.fromEntries(MEDIA_TYPES.map((type) => [type, all[type]]));
      return { contents: JSON.stringify(few), loader: "json" };
    });
  },
};

/**
 * Packages that express loads at its start but the webhook does not use: it reads bodies itself and serves no files.
 */
const UNUSED_OF_EXPRESS = /^(body-parser|send|serve-static)$/;
/** Commander needs this module only for subcommands that are programs. Here no subcommand is one. */
const UNUSED_OF_COMMANDER = /^node:child_process$/;

/** Leaves these packages out: they make a webhook's start a tenth longer. A call of a left-out module throws. */
const leaveOutUnused: Plugin = {
  name: "leave-out-unused",
  setup({ onLoad, onResolve }) {
    onResolve({ filter: UNUSED_OF_EXPRESS }, ({ path }) => ({ path, namespace: "left-out" }));
    onResolve({ filter: UNUSED_OF_COMMANDER }, ({ path, importer }) =>
      /[\\/]commander[\\/]/.test(importer) ? { path, namespace: "left-out" } : undefined,
    );
    onLoad({ filter: /.*/, namespace: "left-out" }, ({ path }) => ({
      contents: `module.exports = () => { throw new Error("${path} is not in the bundle (manifests/bundle.ts)"); };`,
    }));
  },
};

function copyPackage(from: string, files: readonly string[], to: string): void {
  const wanted = globSync("**/*", { cwd: from, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(from.length + 1))
    .filter((path) => ["package.json", ...files].some((pattern) => matchesGlob(path, pattern)));
  for (const path of wanted) {
    mkdirSync(dirname(join(to, path)), { recursive: true });
    if (path.endsWith(".js")) writeFileSync(join(to, path), withoutNamespaces(readFileSync(join(from, path), "utf8")));
    else cpSync(join(from, path), join(to, path));
  }
}

/** The licenses of all packages with files in the bundles. */
export function bundledLicenses(...metafiles: readonly Metafile[]): string {
  return licensesOf(metafiles.flatMap(bundledPaths));
}

/** `paths` are packages of this checkout, such as `node_modules/valibot`. */
function licensesOf(paths: readonly string[]): string {
  return [...new Set(paths)].sort().map(licenseOf).join(RULE);
}

/** The packages with a file in the bundle, as the lockfile names them. */
function bundledPaths({ inputs }: Metafile): string[] {
  return Object.keys(inputs).flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
}

/** The text that nearly all licenses require in a copy. */
function licenseOf(path: string): string {
  const place = join(TOP, path);
  const { name, version, license } = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
  const [file] = globSync("{LICEN[CS]E,licen[cs]e,Licen[cs]e}*", { cwd: place }).sort();
  const text = file === undefined ? "" : `\n${readFileSync(join(place, file), "utf8").trim()}\n`;
  return `${name} ${version}: ${license}\n${text}`;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { outDir: { type: "string" } } });
  if (values.outDir === undefined) throw new Error("usage: node manifests/bundle.ts --outDir FOLDER");
  await bundleProduct(values.outDir);
}
