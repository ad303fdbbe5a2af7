import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { dirname, join, matchesGlob } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { resolveImport } from "#test/import-names.ts";

const TOP = fileURLToPath(new URL("..", import.meta.url));
const read = (path: string) => readFileSync(join(TOP, path), "utf8");
const list = JSON.parse(read("manifests/image-files.json")) as {
  workdir: string;
  user: string;
  build: string[];
  buildFiles: string[];
  entryPoints: string[];
  leftOut: string[];
  packages: Record<string, string[]>;
  entrypoint: string[];
  folders: string[];
  files: string[];
  exclude: string[];
};
const instructions = read("Dockerfile")
  .replace(/^#.*\n/gm, "")
  .split("\n")
  .filter((line) => line !== "");
const stage = (from: string) => {
  const rest = instructions.slice(instructions.indexOf(from) + 1);
  const end = rest.findIndex((line) => line.startsWith("FROM "));
  return end === -1 ? rest : rest.slice(0, end);
};
const FROM_BASE = `FROM \${BASE} AS build`;
const FROM_RUNTIME = `FROM \${RUNTIME}`;
const build = stage(FROM_BASE);
const runtime = stage(FROM_RUNTIME);
const ignored = read(".dockerignore")
  .split("\n")
  .filter((line) => line !== "" && !line.startsWith("#"));

test("the Dockerfile bundles exactly the listed folders, and copies the result", () => {
  const sources = [
    "package.json package-lock.json ./",
    "LICENSE ./",
    "tsconfig.json ./",
    "manifests/bundle.ts manifests/image-files.json ./manifests/",
  ].map((files) => `COPY ${files}`);
  assert.deepEqual(copies(build), [...sources, ...list.folders.map((folder) => `COPY ${folder} ./${folder}`)]);
  assert.ok([...list.buildFiles, ...list.files].every((file) => sources.some((line) => line.includes(file))));
  assert.equal(build.at(-2), `RUN ${list.build.join(" ")}`);
  const output = list.build[list.build.indexOf("--outDir") + 1];
  const node = ["/usr/local/bin/node /usr/local/bin/", "/usr/local/lib/libatomic.so.1 /usr/lib/"];
  const expected = [...node, `${list.workdir}/${output} ./`];
  assert.deepEqual(
    copies(runtime),
    expected.map((files) => `COPY --from=build ${files}`),
  );
});

test("the Dockerfile has two base images, and the listed working directory, user and entry point", () => {
  const froms = instructions.filter((line) => line.startsWith("FROM "));
  assert.match(instructions[0] ?? "", /^ARG BASE=node:26-slim\b/);
  assert.match(instructions[1] ?? "", /^ARG RUNTIME=gcr\.io\/distroless\/cc-debian13:nonroot\b/);
  assert.deepEqual(froms, [FROM_BASE, FROM_RUNTIME]);
  for (const instruction of [`WORKDIR ${list.workdir}`, `USER ${list.user}`]) assert.ok(runtime.includes(instruction));
  assert.deepEqual(JSON.parse(runtime.at(-1)?.replace("ENTRYPOINT ", "") ?? ""), list.entrypoint);
});

test(".dockerignore lets in only the listed files, and what is needed to compile them", () => {
  const expected = [
    "*",
    ...[...list.folders, ...list.files, "package-lock.json", ...list.buildFiles].map((name) => `!${name}`),
  ];
  assert.deepEqual(ignored, [...expected, ...list.exclude]);
});

test("every file that a file of the image imports is in the image", () => {
  const files = list.folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: TOP })).filter(isInImage);
  assert.ok(files.length > 20, "the listed folders are found");
  const missing = files.flatMap((file) =>
    importsOf(file)
      // Commands are loaded on demand. So the image may lack some, such as the demo, which needs the repository.
      .filter((imported) => !isInImage(imported) && !(loadsCommands(file) && isLeftOut(imported)))
      .map((imported) => `${file} imports ${imported}`),
  );
  assert.deepEqual(missing, [], "mend the import, or manifests/image-files.json");
});

test("every package that the files of the image import is a dependency", () => {
  const { dependencies } = JSON.parse(read("package.json")) as { dependencies: Record<string, string> };
  const files = list.folders.flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: TOP })).filter(isInImage);
  const names = new Set(files.flatMap(specifiersOf).filter((specifier) => !/^([.#]|node:)/.test(specifier)));
  const missing = [...names].filter((specifier) => !Object.keys(dependencies).includes(packageOf(specifier)));
  assert.deepEqual(missing, []);
});

function copies(lines: string[]): string[] {
  return lines.filter((line) => line.startsWith("COPY "));
}

function loadsCommands(file: string): boolean {
  return ["cli/program.ts", "cli/extras.ts"].includes(file);
}

function isLeftOut(file: string): boolean {
  return list.exclude.some((pattern) => matchesGlob(file, pattern));
}

function isInImage(file: string): boolean {
  if (isLeftOut(file)) return false;
  return list.files.includes(file) || list.folders.some((folder) => file.startsWith(`${folder}/`));
}

/** The repository's files that `file` needs at run time. */
function importsOf(file: string): string[] {
  return specifiersOf(file)
    .filter((specifier) => /^[.#]/.test(specifier))
    .map((specifier) => resolveImport(dirname(file), specifier));
}

/** Modules that a file imports statically or dynamically, without type imports. */
function specifiersOf(file: string): string[] {
  const source = read(file).replace(/^\s*(import|export) type [^;]*;/gm, "");
  const imports = source.matchAll(/(?:^(?:import|export|\}).*\bfrom |^import |\bimport\()"([^"]+)"/gm);
  return [...imports].map(([, specifier = ""]) => specifier);
}

function packageOf(specifier: string): string {
  return specifier.split("/", specifier.startsWith("@") ? 2 : 1).join("/");
}
