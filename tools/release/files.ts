import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseDocument, stringify } from "yaml";
import { bundleCommand } from "./bundle.ts";

/** What is known of a release only when it is published. Of the settings, only the registry has a default. */
export interface Publication {
  /** Where image and chart are: `registry.example.com/team`. */
  readonly registry: string;
  /** Digest of the image's index. Without it, install.yaml names the image by its version. */
  readonly digest?: string | undefined;
  /** The project's page, which also has its sources. */
  readonly home?: string | undefined;
  /** Contact for reports of vulnerabilities. */
  readonly securityContact?: string | undefined;
}

/** Placeholder for the registry in the README's commands. */
export const EXAMPLE_REGISTRY = "registry.example.com/team";

const SOURCE = join(import.meta.dirname, "..", "..");

function read(path: string): string {
  return readFileSync(join(SOURCE, path), "utf8");
}

/**
 * Writes the files of this checkout's release into `out`. The folders `chart` and `npm` of an earlier call are
 * replaced. Throws an Error if the checkout does not fit together, or if an option has another form.
 */
export async function writeRelease(out: string, publication: Publication): Promise<void> {
  const { registry, digest } = publication;
  // The form of OCI references: a host, an optional port, and a path.
  requireForm("--registry", registry, /^[a-z0-9.-]+(?::\d+)?(?:\/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*$/);
  requireForm("--digest", digest, /^sha256:[0-9a-f]{64}$/);
  const { version } = JSON.parse(read("package.json")) as { version: string };
  for (const folder of ["chart", "npm"]) rmSync(join(out, folder), { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  writeFileSync(join(out, "NOTES.md"), notes(version, publication));
  writeFileSync(join(out, "install.yaml"), manifest(version, publication));
  writeChart(join(out, "chart"), version, publication);
  await writeNpmPackage(join(out, "npm"), publication);
}

function requireForm(option: string, value: string | undefined, form: RegExp): void {
  if (value !== undefined && !form.test(value)) throw new Error(`${option} ${value}: it must match ${form.source}`);
}

/** The version's section of CHANGELOG.md, the command that installs it, and where to report vulnerabilities. */
function notes(version: string, { registry, securityContact }: Publication): string {
  const [, command] = /^## Install\n[\s\S]*?\n\n((?: {4}.*\n)+)/m.exec(readme(registry)) ?? [];
  if (command === undefined) throw new Error('README.md has no command below "## Install"');
  const report = securityContact && `\n### Report a vulnerability\n\nPrivately, to ${securityContact}.\n`;
  const sections = read("CHANGELOG.md").split(/^(?=## )/m);
  const section = sections.find((text) => text.split("\n", 1)[0] === `## ${version}`);
  if (section === undefined) throw new Error(`CHANGELOG.md has no section "## ${version}": write what changed`);
  return `${section.trim()}\n\n### Install\n\n${command}${report ?? ""}`;
}

/** The README with the release's registry in its commands. */
function readme(registry: string): string {
  return read("README.md").replaceAll(EXAMPLE_REGISTRY, registry);
}

/** manifests/install.yaml with the published image. */
function manifest(version: string, { registry, digest }: Publication): string {
  const image = `${registry}/switchback${digest === undefined ? `:${version}` : `@${digest}`}`;
  return replaced("manifests/install.yaml", /^( +image: )"?switchback:[^"\s]+"?$/gm, `$1"${image}"`);
}

/** The chart with the published image as its default, and the addresses that Artifact Hub shows. */
function writeChart(folder: string, version: string, { registry, home }: Publication): void {
  const values = replaced(
    "manifests/chart/values.yaml",
    /^(image:\n(?: +#.*\n)* +repository: )\S+$/m,
    `$1${registry}/switchback`,
  );
  const chart = parseDocument(read("manifests/chart/Chart.yaml"));
  if (chart.get("version") !== version || chart.get("appVersion") !== version)
    throw new Error(`manifests/chart/Chart.yaml is not of version ${version}, which package.json has`);
  if (home !== undefined) {
    chart.set("home", home);
    chart.set("sources", chart.createNode([home]));
  }
  // https://artifacthub.io/docs/topics/annotations/helm: the value is a YAML text.
  const images = stringify([{ name: "switchback", image: `${registry}/switchback:${version}` }]);
  chart.setIn(["annotations", "artifacthub.io/images"], images);
  cpSync(join(SOURCE, "manifests/chart"), folder, { recursive: true });
  writeFileSync(join(folder, "values.yaml"), values);
  writeFileSync(join(folder, "Chart.yaml"), chart.toString({ lineWidth: 0 }));
}

/** The command as npm publishes it, without dependencies. It runs on each Node that is still maintained. */
async function writeNpmPackage(folder: string, { registry, home, securityContact }: Publication): Promise<void> {
  await bundleCommand(SOURCE, folder, home);
  writeFileSync(join(folder, "README.md"), readme(registry));
  const policy = read("SECURITY.md");
  const contact = securityContact && policy.replace(/^( {4})SECURITY_CONTACT .*$/m, `$1${securityContact}`);
  writeFileSync(join(folder, "SECURITY.md"), contact ?? policy);
}

/** The text of a file after a replacement. Throws if the file lacks what is replaced. */
function replaced(path: string, pattern: RegExp, replacement: string): string {
  const before = read(path);
  const text = before.replace(pattern, replacement);
  if (text === before) throw new Error(`${path} has no ${pattern.source}`);
  return text;
}
