import { globSync } from "node:fs";
import { realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { unpackedDebian } from "./debian.ts";
import { type ImageSpec, withLibraries, writeImage } from "./image.ts";
import { nodeLayer } from "./images.ts";
import { run } from "./node/run.ts";

/** buildah, and those of its libraries that a machine may lack. */
const PACKAGES = ["buildah", "libgpgme11", "libsubid4"];

/**
 * Builds an unmodified Dockerfile without a container engine and without namespaces (`--isolation chroot`). The base
 * image `base` has the pinned Node, this machine's npm and a shell. buildah writes everything into `folder`. Returns
 * the built image's root folder and its settings.
 */
export async function buildDockerfile(context: string, base: string, folder: string): Promise<BuiltImage> {
  const unpacked = await unpackedDebian("buildah", async () => PACKAGES);
  const [policy, registries] = [join(folder, "policy.json"), join(folder, "registries.conf")];
  await writeFile(policy, JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] }));
  // The base's name has no registry. This alias leads to the image that is made here.
  await writeFile(registries, `[aliases]\n"${base.split(":")[0]}" = "docker.io/library/${base.split(":")[0]}"\n`);
  const storage = ["--root", join(folder, "storage"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const settings = ["--registries-conf", registries];
  // buildah starts its helpers without LD_LIBRARY_PATH. They find the libraries through a cache of the linker, which no
  // other program sees.
  const cache = join(folder, "ld.so.cache");
  const [libraries = ""] = globSync("usr/lib/*-linux-gnu", { cwd: unpacked });
  await run("ldconfig", "-X", "-C", cache, join(unpacked, libraries));
  const privately = ["--mount", "sh", "-c", `mount --bind ${cache} /etc/ld.so.cache && exec "$@"`, "sh"];
  const program = join(unpacked, "usr/bin/buildah");
  const buildah = (command: string, ...args: string[]) =>
    run("unshare", ...privately, program, ...storage, ...settings, command, ...args);

  const archive = join(folder, "base.tar");
  await writeImage(await baseImage(base), archive);
  const trusting = ["--signature-policy", policy];
  const pulled = (await buildah("pull", ...trusting, `oci-archive:${archive}`)).trim();
  await buildah("tag", pulled, `docker.io/library/${base}`);
  await buildah("bud", ...trusting, "--isolation", "chroot", "--pull=false", "--tag", "built", context);
  const container = (await buildah("from", ...trusting, "--pull=false", "built")).trim();
  const config = JSON.parse(await buildah("inspect", "--type", "image", "built")) as {
    OCIv1: { config: Readonly<Record<string, unknown>> };
  };
  return { root: (await buildah("mount", container)).trim(), config: config.OCIv1.config };
}

/** A built image: its files, and its settings in the form of OCI. */
export interface BuiltImage {
  readonly root: string;
  readonly config: Readonly<Record<string, unknown>>;
}

/** The parts of the Dockerfile's base image that the build needs: Node, npm and a shell. */
async function baseImage(name: string): Promise<ImageSpec> {
  const npm = dirname(dirname(await realpath((await run("which", "npm")).trim())));
  // npm in the image gets this machine's registry. It would not know the machine's certificate authorities either.
  const registry = (await run("npm", "config", "get", "registry")).trim();
  const authorities = "/etc/ssl/certs/ca-certificates.crt";
  const shell = await withLibraries({ from: await realpath("/bin/sh"), at: "/bin/sh" }, { from: "/usr/bin/env" });
  const layer = {
    ...shell,
    "/usr/local/lib/node_modules/npm": { from: npm },
    "/usr/local/bin/npm": { link: "../lib/node_modules/npm/bin/npm-cli.js" },
    "/usr/local/etc/npmrc": { text: `registry=${registry}\ncafile=${authorities}\n` },
    [authorities]: { from: authorities },
  };
  return { name, layers: [await nodeLayer(), layer], user: "0:0", entrypoint: ["node"] };
}
