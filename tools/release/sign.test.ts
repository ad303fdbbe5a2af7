import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { unpublished } from "#test/fakes/release.ts";
import { makeRelease } from "./make.ts";
import type { ReleasePart } from "./part.ts";
import { readSigningKey } from "./sign.ts";

const folder = mkdtempSync(join(tmpdir(), "switchback-sign-"));
after(() => rmSync(folder, { recursive: true }));

const pem = { type: "pkcs8", format: "pem" } as const;
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const out = join(folder, "out");
const release = unpublished({ out, source: folder, version: "1.2.3" });
const file: ReleasePart = {
  name: "file",
  make: async () => {
    writeFileSync(join(out, "file"), "content");
    return ["file"];
  },
};

test("with a key, SHA256SUMS has a signature that OpenSSL verifies; without one it has none", async () => {
  await makeRelease(release, [file], readSigningKey(privateKey.export(pem).toString()));
  writeFileSync(join(folder, "key.pub"), publicKey.export({ type: "spki", format: "pem" }));
  const signature = readFileSync(join(out, "SHA256SUMS.sig"), "utf8");
  writeFileSync(join(folder, "signature"), Buffer.from(signature, "base64"));
  const verify = ["dgst", "-sha256", "-verify", join(folder, "key.pub"), "-signature", join(folder, "signature")];
  assert.match(execFileSync("openssl", [...verify, join(out, "SHA256SUMS")], { encoding: "utf8" }), /Verified OK/);
  assert.doesNotMatch(readFileSync(join(out, "SHA256SUMS"), "utf8"), /SHA256SUMS/);

  await makeRelease(release, [file], undefined);
  assert.equal(existsSync(join(out, "SHA256SUMS.sig")), false);
});

test("another kind of key and invalid text are refused, and the error has no part of them", () => {
  const other = generateKeyPairSync("ed25519").privateKey.export(pem).toString();
  assert.throws(() => readSigningKey(other), /^ReleaseError: RELEASE_SIGNING_KEY is a key of another kind \(ed25519\)/);
  const broken = privateKey.export(pem).toString().replace("PRIVATE KEY", "PRIVATE CAT");
  assert.throws(
    () => readSigningKey(broken),
    (error: Error) => /does not load/.test(error.message) && !error.message.includes(broken.slice(40, 60)),
  );
  assert.equal(readSigningKey(""), undefined);
});
