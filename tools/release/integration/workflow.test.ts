import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { parse } from "yaml";
import { binary } from "#test/cluster/binaries.ts";

// Runs the scripts of .github/workflows/release.yml. `npm run release` and `helm package` are real. A program that
// records its calls replaces those that talk to a registry, to Sigstore, to npm or to GitHub.

interface Step {
  readonly name?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly "working-directory"?: string;
}

const TOP = join(import.meta.dirname, "..", "..", "..");
const { jobs } = parse(readFileSync(join(TOP, ".github", "workflows", "release.yml"), "utf8"));
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8"));
const DIGEST = `sha256:${"5".repeat(64)}`;
const CHART_DIGEST = `sha256:${"6".repeat(64)}`;
const PASSWORD = "of-the-registry";
const folder = mkdtempSync(join(tmpdir(), "switchback-workflow-"));
after(() => rmSync(folder, { recursive: true }));

/** Records a call, answers as the real program does, and fails if a file of the release is missing. */
const PROGRAM = `#!/bin/sh
echo "\${0##*/} $*" >> "$CALLS"
case "\${0##*/} $1 $2" in
  "docker run "*) echo ${version} ;;
  "helm push "*) test -s "$2" && echo "Digest: ${CHART_DIGEST}" >&2 || exit 1 ;;
  "jq "*) echo ${DIGEST} ;;
  "cosign sign-blob "*) echo signature > SHA256SUMS.sigstore.json ;;
  "npm publish "*) test -s "$2/package.json" || exit 1 ;;
  "helm package "*) exec "$HELM" "$@" ;;
  "npm run release") shift 3; exec "$NODE" tools/release/main.ts "$@" ;;
  "gh release create") shift 11; for file; do test -s "$file" || exit 1; done ;;
esac
`;

/** The text that GitHub substitutes for an expression. */
function evaluated(text: string): string {
  const values: Readonly<Record<string, string>> = {
    "github.ref_name": `v${version}`,
    "github.repository_owner": "Example",
    "github.token": "token",
    "runner.temp": folder,
    "vars.REGISTRY": "",
    "vars.SECURITY_CONTACT": "security@example.com",
    "secrets.REGISTRY_USER || github.actor": "somebody",
    "secrets.REGISTRY_PASSWORD || secrets.GITHUB_TOKEN": PASSWORD,
    "secrets.NPM_TOKEN": "npm-token",
    "steps.registry.outputs.registry": outputs().registry ?? "",
    "steps.build.outputs.digest": DIGEST,
    "steps.chart.outputs.digest": CHART_DIGEST,
    "needs.image.outputs.registry": outputs().registry ?? "",
    "needs.image.outputs.digest": DIGEST,
  };
  return text.replaceAll(/\$\{\{ (.*?) \}\}/g, (_, expression) => values[expression] ?? assert.fail(expression));
}

/** What the steps until now have written to GITHUB_OUTPUT. */
function outputs(): Record<string, string> {
  const file = join(folder, "outputs");
  const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  return Object.fromEntries(lines.map((line) => line.split("=", 2)));
}

/** Runs a script like GitHub. Returns its output. */
function runStep({ name, run = "", env, "working-directory": cwd }: Step, ofJob: object, helm: string): string {
  const given = Object.entries<string>({ ...ofJob, ...env });
  const { status, stdout, stderr } = spawnSync("bash", ["--noprofile", "--norc", "-eo", "pipefail", "-c", run], {
    cwd: cwd === undefined ? TOP : evaluated(cwd),
    encoding: "utf8",
    timeout: 120_000,
    env: {
      PATH: `${join(folder, "bin")}:${process.env.PATH}`,
      CALLS: join(folder, "calls"),
      HELM: helm,
      NODE: process.execPath,
      HOME: folder,
      RUNNER_TEMP: folder,
      GITHUB_OUTPUT: join(folder, "outputs"),
      GITHUB_SERVER_URL: "https://github.com",
      GITHUB_REPOSITORY: "example/switchback",
      GITHUB_WORKFLOW_REF: `example/switchback/.github/workflows/release.yml@refs/tags/v${version}`,
      ...Object.fromEntries(given.map(([key, text]) => [key, evaluated(text)])),
    },
  });
  assert.equal(status, 0, `${name}: ${stdout}${stderr}`);
  return `${stdout}${stderr}`;
}

test("the workflow builds, pushes, signs and publishes what `npm run release` writes, by digest", async () => {
  const helm = await binary("helm");
  mkdirSync(join(folder, "bin"));
  for (const program of ["cosign", "docker", "gh", "helm", "jq", "npm", "sudo"])
    writeFileSync(join(folder, "bin", program), PROGRAM, { mode: 0o755 });

  const printed = Object.values<{ env?: object; steps: Step[] }>(jobs).flatMap(({ env = {}, steps }) =>
    steps.filter(({ run }) => run !== undefined).map((step) => runStep(step, env, helm)),
  );

  const [image, chart] = ["ghcr.io/example/switchback", "ghcr.io/example/charts/switchback"];
  const signer = `https://github.com/example/switchback/.github/workflows/release.yml@refs/tags/v${version}`;
  const by = `--certificate-identity ${signer} --certificate-oidc-issuer https://token.actions.githubusercontent.com`;
  const calls = readFileSync(join(folder, "calls"), "utf8").trim().split("\n");
  assert.deepEqual(
    calls.filter((line) => !/^(?:sudo|jq|npm (?:ci|config|run)|helm package) /.test(line)),
    [
      "docker login --username somebody --password-stdin ghcr.io",
      "docker buildx create --use",
      "docker buildx build --platform linux/amd64,linux/arm64 --sbom=true --provenance=mode=max --push " +
        `--tag ${image}:${version} --metadata-file ${folder}/image.json .`,
      ...["amd64", "arm64"].map(
        (arch) => `docker run --rm --pull always --quiet --platform linux/${arch} ${image}@${DIGEST} --version`,
      ),
      "docker login --username somebody --password-stdin ghcr.io",
      "helm registry login --username somebody --password-stdin ghcr.io",
      `helm push switchback-${version}.tgz oci://ghcr.io/example/charts`,
      `cosign sign --yes --recursive ${image}@${DIGEST}`,
      `cosign sign --yes ${chart}@${CHART_DIGEST}`,
      "cosign sign-blob --yes --bundle SHA256SUMS.sigstore.json SHA256SUMS",
      "npm publish ./npm --provenance --access public",
      ...[image, chart].map((name) => `cosign verify ${by} ${name}:${version}`),
      `gh release create v${version} --repo example/switchback --verify-tag --title v${version} ` +
        `--notes-file NOTES.md install.yaml switchback-${version}.tgz SHA256SUMS SHA256SUMS.sigstore.json`,
    ],
  );
  assert.deepEqual(outputs(), { registry: "ghcr.io/example", digest: CHART_DIGEST });
  const manifests = readFileSync(join(folder, "release/install.yaml"), "utf8");
  assert.ok(manifests.includes(`image: "${image}@${DIGEST}"`));
  assert.ok(![...calls, ...printed].some((line) => line.includes(PASSWORD)), "the password is shown");
});
