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
const utf16 = (text: string) => Buffer.from(text, "utf16le");

/** A hosts file that inject refuses. */
const hosts = (what: string, content: string | Buffer, says: RegExp): BadInput => ({
  what: `a hosts file ${what}`,
  args: ["inject", "-f", "DIR/pod.yaml", "--hosts", "DIR/hosts"],
  files: { "pod.yaml": BAKED, hosts: content },
  says,
});
/** A manifest that inject refuses; `says` matches what follows the file's name. */
const manifest = (what: string, content: string | Buffer, says: RegExp, ...flags: string[]): BadInput => ({
  what: `a manifest ${what}`,
  args: ["inject", "-f", "DIR/m.yaml", "--hosts", "DIR/hosts", ...flags],
  files: { "m.yaml": content, hosts: HOSTS },
  says,
});
const file = (says: string) => new RegExp(`^switchback: \\S+/${says}\n$`);
const END = "; no output was written\n$";
const object = (line: string) => new RegExp(`^switchback: \\S+/m\\.yaml:${line}${END}`);
const strict = (warning: string) => new RegExp(`^switchback: --strict: ${warning}${END}`);

walk("inject refuses, and strips nothing for,", [
  hosts(
    "that is empty",
    "",
    file("hosts: has no names; accepted are lines such as `198\\.51\\.100\\.9 shop\\.example\\.com`"),
  ),
  hosts("of comments", "# 203.0.113.5 a.example.com\n\n", file("hosts: has no names; .*")),
  hosts(
    "of prose",
    "hello\nworld\n",
    file('hosts:1: no name .*; "hello" is not an IP address \\(address-invalid\\); .*'),
  ),
  hosts(
    "of addresses",
    "\n203.0.113.5\n",
    file("hosts:2: .* no hostname follows 203\\.0\\.113\\.5 \\(name-invalid\\); .*"),
  ),
  hosts(
    "with the columns exchanged",
    "a.example.com 203.0.113.5\n",
    file('hosts:1: .*"a\\.example\\.com" is not an IP .*'),
  ),
  hosts(
    "of refused names",
    "127.0.0.1 localhost\n::1 x.svc\n",
    file("hosts:1: .* has one label.*\\(name-invalid\\); .*"),
  ),
  hosts("of wildcards", "203.0.113.5 *.example.com\n", file("hosts:1: .* cannot hold a wildcard \\(wildcard\\); .*")),
  hosts("that is a manifest", POD, file('hosts:1: .*"kind:" is not an IP address .*')),
  hosts("with NUL bytes", `203.0.113.5 a.example.com\n\0`, file("hosts:2: is not text in UTF-8")),
  hosts("that is binary", Buffer.from("1f8b0800a1b2c3", "hex"), file("hosts:1: is not text in UTF-8")),
  hosts("in Latin-1", Buffer.from("\n# caf\xe9\n", "latin1"), file("hosts:2: is not text in UTF-8")),
  hosts("in UTF-16", utf16(`\ufeff${HOSTS}`), file("hosts: is UTF-16; .*iconv -f UTF-16 -t UTF-8.*")),
  {
    what: "a hosts file that is not there",
    args: ["inject", "-f", "FILE", "--hosts", "/nonexistent/hosts"],
    file: BAKED,
    says: /^switchback: cannot read \/nonexistent\/hosts: ENOENT/,
  },
]);

walk("inject refuses", [
  manifest("in UTF-16, little-endian", utf16(`\ufeff${POD}`), file("m.yaml: is UTF-16; .*")),
  manifest("in UTF-16, big-endian", utf16(`\ufeff${POD}`).swap16(), file("m.yaml: is UTF-16; .*")),
  manifest(
    "that is binary",
    Buffer.concat([Buffer.from(POD), Buffer.alloc(9)]),
    file("m.yaml:4: is not text in UTF-8"),
  ),
  manifest("in Latin-1", Buffer.from(`${POD}# \xe9\n`, "latin1"), file("m.yaml:4: is not text in UTF-8")),
  manifest(
    "that does not parse, if strict",
    `${POD}---\n\nkind: Pod\nkind: Pod\n`,
    strict("\\S+m\\.yaml:7: document 2: not injected \\(yaml-invalid\\): Map keys must be unique"),
    "--strict",
  ),
  manifest(
    "without a pod template",
    "# x\nkind: Deployment\nmetadata: { name: w }\n",
    object("2: document 1: Deployment w: not injected \\(no-pod-template\\): spec\\.template\\.spec is missing"),
  ),
  manifest(
    "with a list in place of annotations",
    "kind: Pod\nspec: { x: 1 }\nmetadata:\n  annotations: [ a ]\n",
    object("4: document 1: not injected \\(metadata-malformed\\): metadata\\.annotations is not a map"),
  ),
  manifest(
    "with malformed aliases",
    "kind: Pod\nspec:\n  hostAliases: none\n",
    object(
      "3: document 1: not injected \\(aliases-malformed\\): spec\\.hostAliases is not a list of `ip` and `hostnames`",
    ),
  ),
  manifest(
    "with one of several items of a list",
    `kind: List\nitems:\n- ${POD.replaceAll("\n", "\n  ")}\n- kind: Pod\n`,
    object("7: document 1: not injected \\(no-pod-template\\): spec is missing"),
  ),
  manifest(
    "of another kind, if strict",
    `${POD}---\n${ROLLOUT}`,
    strict(
      '\\S+m\\.yaml:5: document 2: Rollout shop/web: not injected \\(kind-unknown\\): kind "Rollout" is not known to ' +
        "hold pods, but spec\\.template looks like a pod template; known kinds are .*; " +
        "--template-path Rollout\\.argoproj\\.io=spec\\.template injects it",
    ),
    "--strict",
  ),
  manifest(
    "that is no object, if strict",
    "- a\n",
    strict("\\S+m\\.yaml:1: document 1: not injected \\(not-an-object\\): .*"),
    "--strict",
  ),
  manifest("without pods, if strict", "kind: Service\n", strict("no pods or workloads found"), "--strict"),
  {
    what: "refused names, if strict",
    args: ["inject", "--strict", "-f", "DIR/m.yaml", "--hosts", "DIR/hosts"],
    files: { "m.yaml": POD, hosts: `${HOSTS}203.0.113.5 metadata.google.internal\n` },
    says: strict('\\S+hosts:2: left out \\(name-protected\\): "metadata\\.google\\.internal" belongs .*'),
  },
]);

const flags = (what: string, args: readonly string[], says: RegExp): BadInput => ({
  what,
  args: ["inject", ...args],
  files: { "m.yaml": POD, hosts: HOSTS, "empty/m.txt": POD, "deep/below/m.yaml": POD },
  says,
});
const PATH =
  /^switchback: --template-path ".*": accepted is KIND\[\.GROUP\]=PATH, such as Rollout\.argoproj\.io=spec\.template /;
walk("inject refuses", [
  flags(
    "a file that is not there",
    ["-f", "DIR/m.yaml", "-f", "/nonexistent/x.yaml"],
    /^switchback: cannot read \/nonexistent\/x\.yaml: ENOENT/,
  ),
  flags("a file name that is too long", ["-f", "x".repeat(300)], /^switchback: cannot read x+: ENAMETOOLONG/),
  flags("an empty file name", ["-f", ""], /argument '' is invalid\. It is empty/),
  flags("no file", ["--hosts", "DIR/hosts"], /^switchback: no file is given: name files or directories, or - for /),
  flags("an empty file", [""], /argument '' is invalid\. It is empty/),
  flags("an empty hosts file name", ["-f", "DIR/m.yaml", "--hosts", ""], /argument '' is invalid\. It is empty/),
  flags("standard input twice", ["-f", "-", "-"], /^switchback: -: standard input can be read once\n$/),
  flags(
    "a folder without manifests",
    ["-f", "DIR/empty"],
    /^switchback: \S+empty: it has no file \*\.yaml, \*\.yml or \*\.json \(-R looks into its folders, too\)\n$/,
  ),
  flags("a folder with manifests below only", ["-f", "DIR/deep"], /^switchback: \S+deep: it has no file/),
  flags(
    "a folder without manifests in its folders",
    ["-R", "-f", "DIR/empty"],
    /^switchback: \S+empty: it and its folders have no file \*\.yaml, \*\.yml or \*\.json\n$/,
  ),
  ...["abc", "0", "1.5", "-1", "1e2", ""].map((count) =>
    flags(
      `${count || "nothing"} as --max-names`,
      ["-f", "DIR/m.yaml", `--max-names=${count}`],
      /argument '.*' is invalid\. Expected a whole number from 1\./,
    ),
  ),
  ...["Rollout", "Rollout=", "=spec", "Rollout=spec..x", "Rollout=spec.x[0]", "Ro/llout=spec"].map((path) =>
    flags("a template path", ["-f", "DIR/m.yaml", "--template-path", path], PATH),
  ),
]);
