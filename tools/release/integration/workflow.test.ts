import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse } from "yaml";
import { unpublished } from "#test/fakes/release.ts";
import { chart } from "../chart/part.ts";
import { sbom } from "../image/sbom.ts";
import { makeRelease } from "../make.ts";
import { imageFile } from "../names.ts";

// Runs the scripts of .github/workflows/release.yml on the files of a real release. A program that records its calls
// replaces those that talk to a registry, to Sigstore or to GitHub.

interface Step {
  readonly name?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
}

const TOP = join(import.meta.dirname, "..", "..", "..");
const { jobs } = parse(readFileSync(join(TOP, ".github", "workflows", "release.yml"), "utf8"));
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8"));
const DIGEST = `sha256:${"0".repeat(64)}`;
const PASSWORD = "of-the-registry";
/** Fails for a missing file. */
const PROGRAM = `#!/bin/sh
echo "\${0##*/} $*" >> "$CALLS"
while [ $# -gt 0 ]; do
  case $1 in
    --digestfile) printf ${DIGEST} > "$2" ;;
    --bundle) echo signature > "$2" ;;
    --predicate | --notes-file) test -s "$2" || exit 1 ;;
    oci-archive:*) test -s "\${1#oci-archive:}" || exit 1 ;;
  esac
  shift
done
`;

const folder = mkdtempSync(join(tmpdir(), "switchback-workflow-"));
after(() => rmSync(folder, { recursive: true }));
const out = join(folder, "release");
const calls = join(folder, "calls");
const outputs = join(folder, "outputs");

/** The text that GitHub substitutes for an expression. */
function evaluated(text: string): string {
  const registry = "ghcr.io/example";
  const values: Readonly<Record<string, string>> = {
    "github.ref_name": `v${version}`,
    "github.token": "token",
    "secrets.REGISTRY_USER || github.actor": "somebody",
    "secrets.REGISTRY_PASSWORD || secrets.GITHUB_TOKEN": PASSWORD,
    "needs.make.outputs.registry": registry,
    "steps.push.outputs.image": DIGEST,
    "steps.push.outputs.chart": DIGEST,
  };
  return text.replaceAll(/\$\{\{ (.*?) \}\}/g, (_, expression) => values[expression] ?? assert.fail(expression));
}

/** Runs a script like GitHub. Returns its output. */
function runStep({ name, run = "", env }: Step): string {
  const given = { ...jobs.publish.env, ...env };
  const variables = Object.fromEntries(Object.entries<string>(given).map(([key, text]) => [key, evaluated(text)]));
  const { status, stdout, stderr } = spawnSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", run], {
    cwd: out,
    encoding: "utf8",
    timeout: 60_000,
    env: {
      PATH: `${join(folder, "bin")}:${process.env.PATH}`,
      CALLS: calls,
      RUNNER_TEMP: folder,
      GITHUB_OUTPUT: outputs,
      GITHUB_SERVER_URL: "https://github.com",
      GITHUB_REPOSITORY: "example/switchback",
      GITHUB_REF_NAME: `v${version}`,
      GITHUB_WORKFLOW_REF: `example/switchback/.github/workflows/release.yml@refs/tags/v${version}`,
      ...variables,
    },
  });
  assert.equal(status, 0, `${name}: ${stderr}`);
  return `${stdout}${stderr}`;
}

test("the workflow pushes, signs, attests and publishes the files of a release, by digest", async () => {
  const release = unpublished({ out, version, registry: "ghcr.io/example" });
  // The real image would need a minute and the network. Only its name matters here.
  mkdirSync(out);
  for (const file of ["SHA256SUMS", "NOTES.md", imageFile(release)]) writeFileSync(join(out, file), file);
  await makeRelease(release, [chart, sbom]);
  mkdirSync(join(folder, "bin"));
  for (const program of ["curl", "docker", "skopeo", "cosign", "gh"])
    writeFileSync(join(folder, "bin", program), PROGRAM, { mode: 0o755 });

  const steps: Step[] = [...jobs.publish.steps, ...jobs.krew.steps];
  const printed = steps.filter(({ run }) => run !== undefined).map(runStep);

  const [image, packed] = ["ghcr.io/example/switchback", "ghcr.io/example/charts/switchback"];
  const home = "https://github.com/example/switchback";
  const signer = `${home}/.github/workflows/release.yml@refs/tags/v${version}`;
  const by = `--certificate-identity ${signer} --certificate-oidc-issuer https://token.actions.githubusercontent.com`;
  const push = "--preserve-digests --digestfile ..";
  const bill = (arch: string) => `switchback-image-${version}-${arch}.cdx.json`;
  const noted = readFileSync(calls, "utf8").trim().split("\n");
  assert.deepEqual(noted.slice(0, -2), [
    "docker login --username somebody --password-stdin ghcr.io",
    `skopeo copy --all ${push}/image oci-archive:${imageFile(release)} docker://${image}:${version}`,
    `skopeo copy ${push}/chart oci-archive:switchback-chart-${version}.tar docker://${packed}:${version}`,
    `cosign sign --yes --recursive ${image}@${DIGEST}`,
    `cosign sign --yes ${packed}@${DIGEST}`,
    "cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS",
    `cosign attest --yes --type cyclonedx --predicate ${bill("amd64")} ${image}@${DIGEST}`,
    `cosign attest --yes --type cyclonedx --predicate ${bill("arm64")} ${image}@${DIGEST}`,
    ...[image, packed].flatMap((name) => [
      `cosign verify ${by} ${name}:${version}`,
      `gh attestation verify oci://${name}:${version} --repo example/switchback --cert-identity ${signer}`,
    ]),
    `cosign verify-attestation --type cyclonedx ${by} ${image}:${version}`,
  ]);
  assert.equal(readFileSync(outputs, "utf8"), `image=${DIGEST}\nchart=${DIGEST}\n`);
  const [published = "", fetched = ""] = noted.slice(-2);
  assert.match(published, new RegExp(`^gh release create v${version} --repo example/switchback --verify-tag `));
  for (const file of ["SHA256SUMS", "SHA256SUMS.sigstore.json", `switchback-${version}.tgz`])
    assert.ok(published.split(" ").includes(join(out, file)), `${file} is not in: ${published}`);
  assert.ok(fetched.endsWith(` --output .krew.yaml ${home}/releases/download/v${version}/switchback.yaml`), fetched);
  assert.ok(![...noted, ...printed].some((line) => line.includes(PASSWORD)), "the password is shown");
});
