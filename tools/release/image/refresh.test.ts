import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import type { Architecture, DebianPackage } from "./base.ts";
import { newestPackages } from "./refresh.ts";

// Packages as a Debian server lists them. Here the server is a folder that the machine's apt reads.

const folder = mkdtempSync(join(tmpdir(), "switchback-refresh-"));
after(() => rmSync(folder, { recursive: true }));

interface Listing {
  readonly archive: "debian" | "debian-security";
  readonly architecture: Architecture;
  readonly name: string;
  readonly version: string;
}
const hash = (text: string) => createHash("sha256").update(text).digest("hex");
const POOL = { debian: "pool/main", "debian-security": "pool/updates/main" } as const;

/** A server that lists these packages but does not have their files. */
function server(name: string, listings: readonly Listing[]) {
  for (const [archive, suite] of [
    ["debian", "trixie"],
    ["debian-security", "trixie-security"],
  ] as const) {
    const sums: string[] = [];
    for (const architecture of ["amd64", "arm64"] as const) {
      const here = listings.filter((one) => one.archive === archive && one.architecture === architecture);
      const text = here.map(paragraph).join("\n");
      const path = `main/binary-${architecture}/Packages`;
      write(join(name, archive, "dists", suite, path), text);
      sums.push(` ${hash(text)} ${text.length} ${path}`);
    }
    const release =
      `Suite: ${suite}\nCodename: ${suite}\nArchitectures: amd64 arm64\nComponents: main\nDate: Mon, 23 Nov 2026 ` +
      "00:00:00 UTC\nSHA256:\n";
    write(join(name, archive, "dists", suite, "Release"), `${release}${sums.join("\n")}\n`);
  }
  return { address: `file:${join(folder, name)}`, trust: "trusted=yes" };
}

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true });
  writeFileSync(join(folder, path), text);
}

function paragraph({ archive, architecture, name, version }: Listing): string {
  const file = `${POOL[archive]}/z/zlib/${name}_${version}_${architecture}.deb`;
  const sha256 = hash(architecture + version);
  return (
    `Package: ${name}\nArchitecture: ${architecture}\nVersion: ${version}\nFilename: ${file}\nSize: 1\nSHA256: ` +
    `${sha256}\nDescription: a library\n`
  );
}

const both = (archive: Listing["archive"], name: string, version: string): Listing[] =>
  (["amd64", "arm64"] as const).map((architecture) => ({ archive, architecture, name, version }));

function pinned(archive: Listing["archive"], name: string, version: string): DebianPackage {
  const path = `${archive}/${POOL[archive]}/z/zlib/${name}`;
  const sha256 = { amd64: hash(`amd64${version}`), arm64: hash(`arm64${version}`) };
  return { name, version, path, sha256, files: [`usr/lib/${name}.so`] };
}

const debian = (...packages: DebianPackage[]) => ({ release: "trixie", number: 13, snapshot: "then", packages });
const NOW = new Date("2026-11-24T05:06:07.089Z");

test("an updated package gets a new version, path and hashes, others stay; the snapshot is now", async () => {
  const listed = [...both("debian", "one", "1.9-1"), ...both("debian", "one", "1.10-1"), ...both("debian", "two", "2")];
  const before = debian(pinned("debian", "one", "1.9-1"), pinned("debian", "two", "2"));
  assert.deepEqual(await newestPackages(before, server("update", listed), NOW), {
    ...debian(pinned("debian", "one", "1.10-1"), pinned("debian", "two", "2")),
    snapshot: "20261124T050607Z",
  });
});

test("a security update is taken from its own archive", async () => {
  const listed = [...both("debian", "one", "1.9"), ...both("debian-security", "one", "1.9+deb13u1")];
  const found = await newestPackages(debian(pinned("debian", "one", "1.9")), server("security", listed), NOW);
  assert.deepEqual(found.packages, [pinned("debian-security", "one", "1.9+deb13u1")]);
});

test("a version waits until both architectures have it", async () => {
  const [early] = both("debian", "one", "2");
  assert.ok(early);
  const before = debian(pinned("debian", "one", "1"));
  const apart = server(
    "apart",
    both("debian", "one", "2").map((one, n) => ({ ...one, version: `${n}` })),
  );
  await assert.rejects(newestPackages(before, apart, NOW), /Debian has no version of one for both of amd64, arm64/);
  assert.equal(await newestPackages(before, server("early", [early, ...both("debian", "one", "1")]), NOW), before);
});

test("the error names a package that Debian no longer has, or a server without lists", async () => {
  const before = debian(pinned("debian", "gone", "1"));
  const without = server("gone", both("debian", "gone", "1").slice(1));
  await assert.rejects(newestPackages(before, without, NOW), /Debian has no gone:amd64/);
  const nowhere = { address: `file:${join(folder, "nowhere")}`, trust: "trusted=yes" };
  await assert.rejects(newestPackages(before, nowhere, NOW), /apt cannot read what file:\S+nowhere has/);
});
