import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ReleaseError } from "./error.ts";
import { readmeOf } from "./names.ts";
import type { Release, ReleasePart } from "./part.ts";

/**
 * NOTES.md: the section of CHANGELOG.md for this version. With a registry, also the command that installs it. With a
 * contact, also where to report vulnerabilities.
 */
export const notes: ReleasePart = { name: "notes", make: makeNotes };

async function makeNotes(
  release: Pick<Release, "out" | "source" | "registry" | "securityContact" | "version">,
): Promise<readonly string[]> {
  const { out, source, registry, securityContact, version } = release;
  const changelog = await readFile(join(source, "CHANGELOG.md"), "utf8");
  const install = registry === undefined ? "" : `\n### Install\n\n${installCommand(readmeOf(release))}`;
  const report =
    securityContact === undefined ? "" : `\n### Report a vulnerability\n\nPrivately, to ${securityContact}.\n`;
  await writeFile(join(out, "NOTES.md"), `${sectionOf(changelog, version)}${install}${report}`);
  return ["NOTES.md"];
}

/** The changelog entries for this version, each on one line. */
export async function changesOf({ source, version }: Pick<Release, "source" | "version">): Promise<string[]> {
  const section = sectionOf(await readFile(join(source, "CHANGELOG.md"), "utf8"), version);
  const [, ...entries] = section.split(/^- /m);
  return entries.map((entry) => (entry.split("\n\n", 1)[0] ?? "").replace(/\s+/g, " ").trim());
}

/** The text from `## 1.2.3` to the next heading of that level. */
function sectionOf(changelog: string, version: string): string {
  const sections = changelog.split(/^(?=## )/m);
  const section = sections.find((text) => text.split("\n", 1)[0]?.split(" ")[1] === version);
  if (section === undefined) throw new ReleaseError(`CHANGELOG.md has no section "## ${version}": write what changed`);
  return `${section.trim()}\n`;
}

/** The first command below "Install", which needs no clone. */
function installCommand(readme: string): string {
  const [, command] = /^## Install\n[\s\S]*?\n\n((?: {4}.*\n)+)/m.exec(readme) ?? [];
  if (command === undefined) throw new Error('README.md has no command below "## Install"');
  return command;
}
