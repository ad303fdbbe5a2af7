import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ReleaseError } from "./error.ts";
import type { Release, ReleasePart } from "./part.ts";

/** NOTES.md: the section of CHANGELOG.md for this version. */
export const notes: ReleasePart = { name: "notes", make: makeNotes };

async function makeNotes({ out, source, version }: Release): Promise<readonly string[]> {
  const changelog = await readFile(join(source, "CHANGELOG.md"), "utf8");
  await writeFile(join(out, "NOTES.md"), sectionOf(changelog, version));
  return ["NOTES.md"];
}

/** From `## 1.2.3` to the next heading of that level. */
function sectionOf(changelog: string, version: string): string {
  const sections = changelog.split(/^(?=## )/m);
  const section = sections.find((text) => text.split("\n", 1)[0]?.split(" ")[1] === version);
  if (section === undefined) throw new ReleaseError(`CHANGELOG.md has no section "## ${version}": write what changed`);
  return `${section.trim()}\n`;
}
