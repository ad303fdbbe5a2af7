import { globSync } from "node:fs";
import { realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { unpackedDebian } from "./debian.ts";
import { type ImageLayer, withLibraries, writeImage } from "./image.ts";
import { nodeLayer } from "./images.ts";
import { run } from "./node/run.ts";

/** buildah, and those of its libraries that a machine may lack. */
const PACKAGES = ["buildah", "libgpgme11", "libsubid4"];
const LIBATOMIC = "/libatomic.so.1";

/**
 * Builds a checkout's unmodified Dockerfile without a container engine and without namespaces (`--isolation
 * chroot`), and writes it to `archive` as `docker save` would. Instead of the two base images, it uses their parts
 * that the Dockerfile needs, from this machine: Node with its libraries, npm and a shell; the libraries alone. buildah
 * writes everything else into `folder`.
 */
export async function buildDockerfile(context: string, name: string, folder: string, archive: string): Promise<void> {
  const unpacked = await unpackedDebian("buildah", async () => PACKAGES);
  const policy = join(folder, "policy.json");
  await writeFile(policy, JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] }));
  const storage = ["--root", join(folder, "storage"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const trusting = ["--signature-policy", policy];
  // buildah starts its helpers without LD_LIBRARY_PATH. They find the libraries through a cache of the linker, which no
  // other program sees.
  const cache = join(folder, "ld.so.cache");
  const [libraries = ""] = globSync("usr/lib/*-linux-gnu", { cwd: unpacked });
  await run("ldconfig", "-X", "-C", cache, join(unpacked, libraries));
  const privately = ["--mount", "sh", "-c", `mount --bind ${cache} /etc/ld.so.cache && exec "$@"`, "sh"];
  const program = join(unpacked, "usr/bin/buildah");
  const buildah = (command: string, ...args: string[]) =>
    run("unshare", ...privately, program, ...storage, command, ...args);

  const node = await nodeLayer();
  const libraryFiles = Object.entries(node).filter(([path]) => !path.endsWith("/node") && !path.endsWith(LIBATOMIC));
  const bases = { BASE: { ...node, ...(await buildLayer()) }, RUNTIME: Object.fromEntries(libraryFiles) };
  const chosen: string[] = [];
  for (const [argument, layer] of Object.entries(bases)) {
    const file = join(folder, `${argument}.tar`);
    const base = `localhost/${argument.toLowerCase()}:1`;
    await writeImage({ name: base, layers: [likeDebian(layer)], user: "0:0", entrypoint: ["node"] }, file);
    const image = (await buildah("pull", ...trusting, `docker-archive:${file}`)).trim();
    await buildah("tag", image, base);
    chosen.push("--build-arg", `${argument}=${base}`);
  }
  await buildah("bud", ...trusting, "--isolation", "chroot", "--pull=false", ...chosen, "--tag", name, context);
  await buildah("push", ...trusting, name, `docker-archive:${archive}:${name}`);
}

/** What the build takes from its base image besides Node: npm, a shell and `cp`. */
async function buildLayer(): Promise<ImageLayer> {
  const npm = dirname(dirname(await realpath((await run("which", "npm")).trim())));
  // npm in the image gets this machine's registry. It would not know the machine's certificate authorities either.
  const registry = (await run("npm", "config", "get", "registry")).trim();
  const authorities = "/etc/ssl/certs/ca-certificates.crt";
  const programs = [{ from: await realpath("/bin/sh"), at: "/bin/sh" }, { from: "/bin/cp" }, { from: "/usr/bin/env" }];
  return {
    ...(await withLibraries(...programs)),
    "/usr/local/lib/node_modules/npm": { from: npm },
    "/usr/local/bin/npm": { link: "../lib/node_modules/npm/bin/npm-cli.js" },
    "/usr/local/etc/npmrc": { text: `registry=${registry}\ncafile=${authorities}\n` },
    [authorities]: { from: authorities },
  };
}

/** The files where Debian has them: /bin and /lib are links. */
function likeDebian(layer: ImageLayer): ImageLayer {
  const inUsr = (path: string) => path.replace(/^\/(?=(?:bin|lib|lib64)\/)/, "/usr/");
  const files = Object.entries(layer).map(([path, file]) => [inUsr(path), file] as const);
  const links = ["bin", "lib", "lib64"].map((name) => [`/${name}`, { link: `usr/${name}` }] as const);
  return Object.fromEntries([...files, ...links]);
}
