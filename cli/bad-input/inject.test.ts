import { type BadInput, walk } from "#test/fakes/bad-input.ts";

const POD = "kind: Pod\nmetadata: { name: p }\nspec: { containers: [] }\n";
const HOSTS = "203.0.113.5 a.example.com\n";
const ROLLOUT = `apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: { name: web, namespace: shop }
spec:
  template:
    spec: { containers: [] }
`;
/** A manifest with aliases of an earlier pass. None of these inputs may remove them. */
const BAKED = `kind: Pod
metadata:
  name: p
  annotations: { switchback.dev/owned: "203.0.113.5 x1 (44e271b85016)" }
spec:
  hostAliases: [ { ip: 203.0.113.5, hostnames: [ a.example.com ] } ]
`;

const inject = (what: string, files: NonNullable<BadInput["files"]>, says: string, ...flags: string[]): BadInput => {
  const args = ["inject", "-f", "DIR/m.yaml", "--hosts", "DIR/hosts", ...flags];
  return {
    what,
    args,
    files: { "m.yaml": BAKED, hosts: HOSTS, ...files },
    says: new RegExp(`^switchback: ${says}\n$`),
  };
};
/** A manifest that inject refuses. */
const manifest = (what: string, content: string | Buffer, says: string) => inject(what, { "m.yaml": content }, says);
const strict = (what: string, content: string, warning: string) =>
  inject(`${what}, if strict`, { "m.yaml": content }, `--strict: ${warning}`, "--strict");

walk("inject refuses, and strips nothing for,", [
  inject(
    "a hosts file of wildcards",
    { hosts: "203.0.113.5 *.example.com\n" },
    "\\S+hosts:1: .*\\(wildcard\\): .* cannot hold a wildcard; no name is left; accepted are lines such as .*",
  ),
]);

walk("inject refuses a manifest", [
  manifest("in UTF-16", Buffer.from(`\ufeff${POD}`, "utf16le"), "cannot read \\S+m.yaml: .*not valid.*utf-8"),
  manifest("in UTF-16 without a mark", Buffer.from(POD, "utf16le"), "cannot read \\S+m.yaml: .*UTF-16"),
  manifest("that is binary", Buffer.from("1f8b0800a1b2c3", "hex"), "cannot read \\S+m.yaml: .*not valid.*utf-8"),
  manifest(
    "with one of several items of a list",
    `kind: List\nitems:\n- ${POD.replaceAll("\n", "\n  ")}\n- kind: Pod\n`,
    `\\S+m.yaml:7: not injected \\(no-pod-template\\): spec is missing`,
  ),
  strict(
    "of another kind",
    `${POD}---\n${ROLLOUT}`,
    '\\S+m\\.yaml:5: Rollout shop/web: not injected \\(kind-unknown\\): kind "Rollout" is not known to ' +
      "hold pods, but spec\\.template looks like a pod template; known kinds are .*; " +
      "--template-path Rollout\\.argoproj\\.io=spec\\.template injects it",
  ),
  strict("that is no object", "- a\n", "\\S+m\\.yaml:1: not injected \\(not-an-object\\): .*"),
  inject(
    "with refused names, if strict",
    { hosts: `${HOSTS}203.0.113.5 metadata.google.internal\n` },
    '--strict: \\S+hosts:2: left out \\(name-protected\\): "metadata\\.google\\.internal" belongs .*',
    "--strict",
  ),
]);

const FLAGS = { "empty/m.txt": POD, "deep/below/m.yaml": POD };
const PATH =
  '--template-path ".*": accepted is KIND\\[\\.GROUP\\]=PATH, such as Rollout\\.argoproj\\.io=spec\\.template .*';
walk("inject refuses", [
  inject("a file name that is too long", {}, "cannot read x+: ENAMETOOLONG.*", "-f", "x".repeat(300)),
  inject(
    "a folder with manifests below only",
    FLAGS,
    "\\S+deep: it has no file \\*\\.yaml, \\*\\.yml or \\*\\.json \\(-R looks into its folders, too\\)",
    ...["-f", "DIR/deep"],
  ),
  inject("a folder without manifests", FLAGS, "\\S+empty: .* or \\*\\.json", "-R", "-f", "DIR/empty"),
  ...["Rollout", "Rollout=", "=spec", "Rollout=spec..x", "Rollout=spec.x[0]", "Ro/llout=spec"].map((path) =>
    inject("a template path", {}, PATH, "--template-path", path),
  ),
]);
