import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, matchesGlob, relative } from "node:path";
import { binary, hasGo } from "./binaries.ts";
import { envoyProgram } from "./envoy.ts";
import { type ImageLayer, type ImageSpec, withLibraries } from "./image.ts";
import type { BinaryName } from "./modules.ts";
import { PAUSE_IMAGE } from "./node/configuration.ts";
import { statePath } from "./node/layout.ts";
import { programPath } from "./node/requirements.ts";
import { run } from "./node/run.ts";
import { NotHere } from "./not-here.ts";

/** The Dockerfile's user: a number that belongs to nobody. */
export const USER = "65532:65532";

const PASSWD = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/nonexistent:/sbin/nologin\n";
const GROUP = "root:x:0:\nnonroot:x:65532:\n";
const NSSWITCH = "hosts: files dns\n";
/** Debian's setting. Without it, glibc uses only the first line of a name in the hosts file, and so only one family. */
const HOST_CONF = "multi on\n";

/** Names of the tests' images. All are imported; none can be pulled. */
export const IMAGES = {
  coredns: "switchback.test/coredns:1",
  traefik: "switchback.test/traefik:1",
  nginx: "switchback.test/nginx:1",
  envoy: "switchback.test/envoy:1",
  contour: "switchback.test/contour:1",
  envoyGateway: "switchback.test/envoy-gateway:1",
  haproxy: "switchback.test/haproxy:1",
  caddy: "switchback.test/caddy:1",
  certManagerController: "switchback.test/cert-manager-controller:1",
  certManagerWebhook: "switchback.test/cert-manager-webhook:1",
  certManagerCainjector: "switchback.test/cert-manager-cainjector:1",
  certManagerAcmesolver: "switchback.test/cert-manager-acmesolver:1",
  /** Static Go program, with Go's own resolver. Its commands are in test/cluster/images/client.go. */
  goClient: "switchback.test/client-go:1",
  /** Static C program on musl. */
  muslClient: "switchback.test/client-musl:1",
} as const;

const USERS = { "/etc/passwd": { text: PASSWD }, "/etc/group": { text: GROUP } };

export async function pauseImage(): Promise<ImageSpec> {
  const pause = await goProgram("pause");
  return { name: PAUSE_IMAGE, layers: [{ "/pause": { from: pause }, ...USERS }], user: USER, entrypoint: ["/pause"] };
}

/**
 * An image with one static program of `modules.ts`. `folder`: a folder of the PATH, if the program's manifests expect
 * the program there.
 */
export async function programImage(name: string, program: BinaryName, folder = ""): Promise<ImageSpec> {
  const path = `${folder}/${program}`;
  const layers = [{ [path]: { from: await binary(program) }, "/tmp/.keep": { text: "" }, ...USERS }];
  return { name, layers, user: USER, entrypoint: [path] };
}

export async function certManagerImages(): Promise<ImageSpec[]> {
  return [
    await programImage(IMAGES.certManagerController, "cert-manager-controller"),
    await programImage(IMAGES.certManagerWebhook, "cert-manager-webhook"),
    await programImage(IMAGES.certManagerCainjector, "cert-manager-cainjector"),
    await programImage(IMAGES.certManagerAcmesolver, "cert-manager-acmesolver"),
  ];
}

/** Images of Contour, and of Envoy from its wheel, with the programs where Contour's manifests expect them. */
export async function contourImages(): Promise<ImageSpec[]> {
  return [await envoyImage(), await programImage(IMAGES.contour, "contour", "/bin")];
}

export async function envoyGatewayImages(): Promise<ImageSpec[]> {
  return [await envoyImage(), await programImage(IMAGES.envoyGateway, "envoy-gateway", "/usr/local/bin")];
}

async function envoyImage(): Promise<ImageSpec> {
  const envoy = "/usr/local/bin/envoy";
  const layer = await withLibraries({ from: await envoyProgram(), at: envoy });
  const files = { ...layer, ...USERS, "/tmp/.keep": { text: "" } };
  return { name: IMAGES.envoy, layers: [files], user: USER, entrypoint: [envoy] };
}

/** Images of the receivers besides nginx, which no Kubernetes object configures. */
export async function receiverImages(): Promise<ImageSpec[]> {
  const haproxy = "/usr/sbin/haproxy";
  const layer = await withLibraries({ from: await programPath("haproxy"), at: haproxy });
  return [
    { name: IMAGES.haproxy, layers: [{ ...layer, ...USERS }], user: USER, entrypoint: [haproxy] },
    await programImage(IMAGES.caddy, "caddy"),
  ];
}

/** Debian's nginx with its stream module. */
export async function nginxImage(): Promise<ImageSpec> {
  const stream = "/usr/lib/nginx/modules/ngx_stream_module.so";
  const layer = await withLibraries({ from: await programPath("nginx"), at: "/usr/sbin/nginx" }, { from: stream });
  const folders = { "/var/log/nginx/.keep": { text: "" }, "/var/lib/nginx/.keep": { text: "" } };
  return {
    name: IMAGES.nginx,
    layers: [{ ...layer, ...folders, ...USERS }],
    user: USER,
    entrypoint: ["/usr/sbin/nginx", "-g", "daemon off;"],
  };
}

/** The pinned Node with the libraries that it is linked to, and C libraries for name lookups. */
export async function nodeLayer(): Promise<ImageSpec["layers"][number]> {
  const layer = await withLibraries({ from: process.execPath, at: "/usr/local/bin/node" });
  const resolver = Object.keys(layer).find((path) => path.endsWith("/libc.so.6"));
  const further = resolver === undefined ? [] : ["libnss_dns.so.2", "libnss_files.so.2", "libresolv.so.2"];
  for (const name of further) {
    const path = join(resolver ?? "", "..", name);
    layer[path] = { from: path };
  }
  return {
    ...layer,
    ...USERS,
    "/etc/nsswitch.conf": { text: NSSWITCH },
    "/etc/host.conf": { text: HOST_CONF },
    "/tmp/.keep": { text: "" },
  };
}

export async function clientImages(): Promise<ImageSpec[]> {
  const clients = [
    [IMAGES.goClient, await goProgram("client")],
    [IMAGES.muslClient, await muslProgram("resolve")],
  ] as const;
  return clients.map(([name, from]) => {
    return { name, layers: [{ "/client": { from }, ...USERS }], user: USER, entrypoint: ["/client"] };
  });
}

const SOURCES = join(import.meta.dirname, "images");

/** Builds `images/<name>.go`, a program that uses only the standard library. */
async function goProgram(name: string): Promise<string> {
  if (!hasGo()) throw new NotHere("go is not on the PATH (https://go.dev/dl)");
  const output = await builtPath(name);
  const flags = ["build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", output];
  await run("env", "CGO_ENABLED=0", "GOWORK=off", "GO111MODULE=off", "go", ...flags, join(SOURCES, `${name}.go`));
  return output;
}

/** Builds `images/<name>.c`, statically with musl. */
async function muslProgram(name: string): Promise<string> {
  const output = await builtPath(name);
  await run("musl-gcc", "-static", "-Os", "-o", output, join(SOURCES, `${name}.c`));
  return output;
}

async function builtPath(name: string): Promise<string> {
  const folder = statePath("built");
  await mkdir(folder, { recursive: true });
  return join(folder, name);
}

const TOP = join(import.meta.dirname, "..", "..");
export const PRODUCT_IMAGE = { repository: "switchback.test/switchback", tag: "e2e" };

interface ImageFiles {
  workdir: string;
  user: string;
  build: string[];
  buildFiles: string[];
  entrypoint: string[];
  folders: string[];
  files: string[];
  exclude: string[];
}

/**
 * Builds the image from the same list of files as the Dockerfile, but on the pinned Node instead of the base image.
 * Calls `work` with the image, and deletes the files afterwards.
 */
export async function withProductImage<T>(work: (image: ImageSpec) => Promise<T>): Promise<T> {
  const list = await imageFiles(TOP);
  const folder = await mkdtemp(join(tmpdir(), "switchback-image-"));
  try {
    const compiled = await compile(list, TOP, folder);
    const at = (path: string) => join(list.workdir, path);
    const files: ImageLayer = {};
    for (const name of await readdir(compiled)) files[at(name)] = { from: join(compiled, name) };
    return await work({
      name: `${PRODUCT_IMAGE.repository}:${PRODUCT_IMAGE.tag}`,
      layers: [await nodeLayer(), files],
      user: list.user,
      workingDir: list.workdir,
      entrypoint: list.entrypoint,
      env: { NODE_ENV: "production", MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "524288" },
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function imageFiles(top: string): Promise<ImageFiles> {
  return JSON.parse(await readFile(join(top, "manifests", "image-files.json"), "utf8")) as ImageFiles;
}

/** Does the same as the Dockerfile's build stage, with this checkout's compiler, which does not check types. */
async function compile(list: ImageFiles, top: string, folder: string): Promise<string> {
  const wanted = (path: string) => !list.exclude.some((pattern) => matchesGlob(relative(top, path), pattern));
  for (const name of [...list.folders, ...list.files, ...list.buildFiles]) {
    await cp(join(top, name), join(folder, name), { recursive: true, filter: wanted });
  }
  const own = join(top, "node_modules");
  await symlink(existsSync(own) ? own : join(TOP, "node_modules"), join(folder, "node_modules"));
  const [command = "", ...args] = list.build;
  await run("env", "-C", folder, join(TOP, "node_modules", ".bin", command), ...args);
  return join(folder, list.build[list.build.indexOf("--outDir") + 1] ?? "");
}
