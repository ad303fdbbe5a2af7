import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { globSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { binary } from "../cluster/binaries.ts";
import { nodeProgram } from "../cluster/node/kubectl.ts";
import { CONTAINERD_SOCKET } from "../cluster/node/layout.ts";
import { usableBase } from "../cluster/release-base.ts";

/** The parts of a release that an install needs if it cannot download anything. */
const PARTS = ["image", "chart", "manifests", "air-gap"];

/** A section of INSTALL.md: the number of a step, or a heading. */
type Section = number | "upgrade" | "roll back" | "remove";
const SECTIONS: Readonly<Record<Exclude<Section, number>, RegExp>> = {
  upgrade: /^To upgrade/m,
  "roll back": /^To roll back/m,
  remove: /^To remove it/m,
};

/** A release that was unpacked from its air-gap archive, without files of the checkout. */
export class ReleaseFolder {
  readonly version: string;
  /** The image's name in containers. */
  readonly image: string;
  readonly #folder: string;
  readonly #programs: string;

  private constructor(version: string, folder: string, programs: string) {
    this.version = version;
    this.image = `docker.io/library/switchback:${version}`;
    this.#folder = folder;
    this.#programs = programs;
  }

  /** Builds a source tree's release in `folder`, with the tree's own release command. */
  static async make(tree: string, folder: string): Promise<ReleaseFolder> {
    const out = join(folder, "release");
    const args = ["--out", out, "--only", PARTS.join(","), "--dirty", ...(await usableBase()).args];
    execFileSync(process.execPath, [join(tree, "tools", "release", "main.ts"), ...args], {
      stdio: ["ignore", "ignore", "inherit"],
    });
    execFileSync("tar", ["-xf", ...globSync("switchback-air-gap-*.tar", { cwd: out }), "-C", folder], { cwd: out });
    const { version } = JSON.parse(readFileSync(join(tree, "package.json"), "utf8")) as { version: string };
    const programs = join(folder, "programs");
    await givePrograms(programs);
    return new ReleaseFolder(version, join(folder, `switchback-${version}`), programs);
  }

  /** Runs the page's commands unchanged in the folder of the archive, with `more` at the end. Returns their output. */
  async follow(section: Section, more = ""): Promise<string> {
    const script = `${this.#commands(section).join(" && ")} ${more}`;
    assert.notEqual(script.trim(), "", `INSTALL.md says how: ${section}`);
    return await this.run(script);
  }

  /** Runs a command in the folder of the archive, with the programs that a user on the node has. Returns its output. */
  async run(script: string): Promise<string> {
    const command = `cd ${this.#folder} && PATH=${this.#programs}:$PATH && ${script}`;
    const { code, stdout, stderr } = await nodeProgram("sh", ["-c", command]);
    assert.equal(code, 0, `${script}: ${stderr}`);
    return stdout;
  }

  #commands(section: Section): string[] {
    const page = readFileSync(join(this.#folder, "INSTALL.md"), "utf8").split("\n## ")[0] ?? "";
    const heading = typeof section === "number" ? new RegExp(`^${section}\\. `, "m") : SECTIONS[section];
    const [, text = ""] = page.split(heading);
    const block = /(?:^ {4,}\S.*\n)+/m.exec(text)?.[0] ?? "";
    const lines = block.split("\n").map((line) => line.trim());
    return lines.filter((line) => line !== "");
  }
}

/** Creates the programs that a user on the node has on the PATH. */
async function givePrograms(folder: string): Promise<void> {
  mkdirSync(folder);
  for (const name of ["kubectl", "helm"] as const) symlinkSync(await binary(name), join(folder, name));
  const script = (name: string, text: string) =>
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  // The socket of this node's containerd is not at the usual path.
  script("ctr", `exec ${await binary("ctr")} --address ${CONTAINERD_SOCKET} "$@"`);
  script("sudo", `exec "$@"`);
}
