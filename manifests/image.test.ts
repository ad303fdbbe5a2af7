import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, matchesGlob } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const TOP = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(join(TOP, path), "utf8");
const list = JSON.parse(read("manifests/image-files.json")) as {
  base: string;
  workdir: string;
  user: string;
  folders: string[];
  files: string[];
  exclude: string[];
};
const instructions = read("Dockerfile")
  .replace(/^#.*\n/gm, "")
  .split("\n")
  .filter((line) => line !== "");
const runtime = instructions.slice(instructions.lastIndexOf(`FROM ${list.base}`));
const ignored = read(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));

test("the Dockerfile copies exactly the listed folders and files", () => {
  const copies = runtime.filter((line) => line.startsWith("COPY ") && !line.startsWith("COPY --from="));
  const expected = [`COPY ${list.files.join(" ")} ./`, ...list.folders.map((folder) => `COPY ${folder} ./${folder}`)];
  assert.deepEqual(copies, expected);
});

test("the Dockerfile has the listed base image, working directory and user", () => {
  const froms = instructions.filter((line) => line.startsWith("FROM "));
  assert.deepEqual(froms, [`FROM ${list.base} AS dependencies`, `FROM ${list.base}`]);
  assert.ok(runtime.includes(`WORKDIR ${list.workdir}`));
  assert.ok(runtime.includes(`USER ${list.user}`));
});

test(".dockerignore lets in what is listed, and the lockfile", () => {
  const expected = ["*", ...[...list.folders, ...list.files, "package-lock.json"].map((name) => `!${name}`)];
  assert.deepEqual(ignored, [...expected, ...list.exclude]);
});

test("whatever the files of the image import is in it too", () => {
  const files = list.folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: TOP })).filter(isInImage);
  assert.ok(files.length > 20, "the listed folders are found");
  const missing = files.flatMap((file) =>
    importsOf(file)
      // The command line loads a command when it is called: one may stay out, such as the demo, which needs the repository.
      .filter((imported) => !isInImage(imported) && !(file === "cli/main.ts" && list.exclude.includes(imported)))
      .map((imported) => `${file} imports ${imported}`),
  );
  assert.deepEqual(missing, [], "mend the import, or manifests/image-files.json");
});

test("every package that the files of the image import is a dependency", () => {
  const { dependencies } = JSON.parse(read("package.json")) as { dependencies: Record<string, string> };
  const files = list.folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: TOP })).filter(isInImage);
  const names = new Set(files.flatMap(specifiersOf).filter((specifier) => !/^(\.|node:)/.test(specifier)));
  const missing = [...names].filter((specifier) => !Object.keys(dependencies).includes(packageOf(specifier)));
  assert.deepEqual(missing, []);
});

function isInImage(file: string): boolean {
  if (list.exclude.some((pattern) => matchesGlob(file, pattern))) return false;
  return list.files.includes(file) || list.folders.some((folder) => file.startsWith(`${folder}/`));
}

/** The repository's files that `file` needs at run time. */
function importsOf(file: string): string[] {
  return specifiersOf(file)
    .filter((specifier) => specifier.startsWith("."))
    .map((specifier) => join(dirname(file), specifier));
}

/** Static and dynamic imports, less those of types. */
function specifiersOf(file: string): string[] {
  const source = read(file).replace(/^\s*(import|export) type [^;]*;/gm, "");
  const imports = source.matchAll(/(?:^(?:import|export|\}).*\bfrom |^import |\bimport\()"([^"]+)"/gm);
  return [...imports].map(([, specifier = ""]) => specifier);
}

function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
