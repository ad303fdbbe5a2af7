import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { EXAMPLE_REGISTRY, writeRelease } from "./files.ts";

// `npm run release -- --out FOLDER`: writes what a release publishes besides the image: the folders `chart` for `helm
// package` and `npm` for `npm publish`, install.yaml, and NOTES.md. It publishes nothing: .github/workflows/release.yml
// does, with the standard tools.

const USAGE = `usage: npm run release -- --out FOLDER [--registry HOST/PATH] [--digest sha256:HASH] [--home URL]
                          [--security-contact CONTACT]`;

const options = { type: "string" } as const;

try {
  const { values } = parseArgs({
    options: { out: options, registry: options, digest: options, home: options, "security-contact": options },
  });
  const { out, registry = EXAMPLE_REGISTRY, digest, home, "security-contact": securityContact } = values;
  if (out === undefined) throw new Error("--out is missing");
  await writeRelease(resolve(out), { registry, digest, home, securityContact });
  process.stdout.write(`${out}: chart, npm, install.yaml, NOTES.md\n`);
} catch (error) {
  process.stderr.write(`release: ${(error as Error).message}\n${USAGE}\n`);
  process.exitCode = 2;
}
