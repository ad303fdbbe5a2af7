import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { EXAMPLE_REGISTRY, securityPolicyOf } from "./names.ts";
import { notes } from "./notes.ts";
import type { Release } from "./part.ts";

const source = join(import.meta.dirname, "..", "..");
const { version } = JSON.parse(readFileSync(join(source, "package.json"), "utf8")) as { version: string };

async function notesWith(registry: string | undefined, securityContact?: string): Promise<string> {
  const out = mkdtempSync(join(tmpdir(), "switchback-notes-"));
  try {
    await notes.make({ out, source, registry, securityContact, version } as Release);
    return readFileSync(join(out, "NOTES.md"), "utf8");
  } finally {
    rmSync(out, { recursive: true });
  }
}

test("the notes have the README's command with the release's registry", async () => {
  const text = await notesWith("ghcr.io/somebody");
  assert.ok(text.startsWith(`## ${version}\n`));
  const command = `    helm install switchback oci://ghcr.io/somebody/charts/switchback --version ${version} `;
  assert.ok(text.includes(`\n### Install\n\n${command}`), text);
  assert.match(text, /--set 'config\.[^\n]*\n$/);
});

test("without a registry, the notes have no command, because it would not work", async () => {
  assert.doesNotMatch(await notesWith(undefined), new RegExp(`### Install|${EXAMPLE_REGISTRY}`));
});

test("the notes and SECURITY.md have the release's contact", async () => {
  const securityContact = "security@example.com";
  assert.match(await notesWith("ghcr.io/somebody", securityContact), /Privately, to security@example\.com\.\n$/);
  const policy = securityPolicyOf({ source, securityContact });
  assert.match(policy, /\n\n {4}security@example\.com\n\n/);
  assert.doesNotMatch(policy, /SECURITY_CONTACT/);
});
