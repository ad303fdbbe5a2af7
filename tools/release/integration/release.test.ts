import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import {
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { binary } from "#test/cluster/binaries.ts";
import { runTool } from "#test/cluster/tools.ts";
import { fakeApi, json } from "#test/fakes/kube-api.ts";
import { OLDEST_NODE } from "../bundle.ts";
import { writeRelease } from "../files.ts";

// The files of `npm run release`, used as npm and Helm use them.

const TOP = join(import.meta.dirname, "..", "..", "..");
const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
const REGISTRY = "registry.example.com:5000/team";
const HOME = "https://example.com/o/r";
const DIGEST = `sha256:${"5".repeat(64)}`;

const folder = mkdtempSync(join(tmpdir(), "switchback-release-"));
const out = join(folder, "out");
before(() =>
  writeRelease(out, { registry: REGISTRY, digest: DIGEST, home: HOME, securityContact: "security@example.com" }),
);
after(() => rmSync(folder, { recursive: true }));

describe("the npm package", () => {
  const unpacked = join(out, "npm");
  const bin = join(unpacked, "cli", "bin.js");

  test("has only the files that it needs: no TypeScript, no packages, 5 MB", () => {
    const page = ["app.css", "app.js", "index.html"].map((name) => `extras/dashboard/page/${name}`);
    assert.deepEqual(
      globSync("**/*.*", { cwd: unpacked })
        .filter((path) => !path.startsWith("examples/demo/"))
        .sort(),
      ["README.md", "SECURITY.md", "cli/bin.js", "cli/main.js", "docs/codes.md", ...page, "package.json"].sort(),
    );
    assert.deepEqual(globSync("*LICENSE*", { cwd: unpacked }).sort(), ["LICENSE", "THIRD-PARTY-LICENSES"]);
    assert.ok(readFileSync(join(unpacked, "cli", "main.js")).length < 5_000_000);
    const about = JSON.parse(readFileSync(join(unpacked, "package.json"), "utf8"));
    assert.deepEqual(
      [about.version, about.engines, about.repository.url],
      [version, { node: `>=${OLDEST_NODE}` }, `git+${HOME}.git`],
    );
    assert.equal(about.dependencies ?? about.private ?? about.scripts, undefined);
  });

  test("names the release's registry and the contact for reports", () => {
    assert.match(readFileSync(join(unpacked, "README.md"), "utf8"), new RegExp(`oci://${REGISTRY}/charts/switchback `));
    assert.match(readFileSync(join(unpacked, "SECURITY.md"), "utf8"), /^ {4}security@example\.com$/m);
  });

  // What a user tries first, in a new home directory, by a link as npm installs it. None needs a cluster.
  for (const { args, stdout, stderr = /^$/, code = 0 } of [
    { args: ["--version"], stdout: new RegExp(`^${version}\n$`) },
    { args: ["doctor", "--help"], stdout: /^Usage: switchback doctor [\s\S]*--probe/ },
    {
      args: ["inject", "-f", "pod.yaml", "--hosts", "hosts"],
      stdout: /hostAliases: \[ \{ ip: "203\.0\.113\.5", hostnames: \[ "shop\.example\.com" \] \} \]/,
      stderr: /^Pod web: injected: 1 name\n$/,
    },
    { args: ["demo"], stdout: /\nThrough the relay each name answers/ },
    // The command starts itself to read the configuration. It ends where it would need a node.
    { args: ["agent"], code: 2, stdout: /^$/, stderr: /^switchback: SWITCHBACK_AGENT_NODE is missing: [^\n]*\n$/ },
  ]) {
    test(`runs \`${args.join(" ")}\` and leaves no file behind`, async () => {
      const home = mkdtempSync(join(folder, "home-"));
      const temporary = join(home, "tmp");
      mkdirSync(temporary);
      writeFileSync(join(home, "pod.yaml"), "kind: Pod\nmetadata: { name: web }\nspec: { containers: [] }\n");
      writeFileSync(join(home, "hosts"), "203.0.113.5 shop.example.com\n");
      symlinkSync(bin, join(home, "switchback"));
      const paths = args.map((arg) => (["pod.yaml", "hosts"].includes(arg) ? join(home, arg) : arg));
      const env = { HOME: home, TMPDIR: temporary };
      const result = await runTool(process.execPath, [join(home, "switchback"), ...paths], env);
      assert.equal(result.code, code, result.stderr);
      assert.match(result.stdout, stdout);
      assert.match(result.stderr, stderr);
      assert.deepEqual(readdirSync(temporary), []);
    });
  }

  test("refuses an older Node and reports the needed version", async () => {
    const old = `data:text/javascript,Object.defineProperty(process.versions, "node", { value: "20.20.2" })`;
    const { code, stderr } = await runTool(process.execPath, ["--import", old, bin, "--help"], {});
    assert.equal(code, 2);
    assert.match(stderr, /^switchback: needs Node 22 or newer; this is v/);
  });

  test("reads a kubeconfig that needs the whole library, such as one with an auth provider's token", async () => {
    const api = await fakeApi(json({ kind: "DeploymentList", metadata: { resourceVersion: "1" }, items: [] }));
    try {
      const kubeconfig = join(folder, "kubeconfig");
      const config = { "access-token": "secret", expiry: "2999-01-01T00:00:00Z" };
      const text = JSON.stringify({
        clusters: [{ name: "c", cluster: { server: api.url.origin, "insecure-skip-tls-verify": true } }],
        users: [{ name: "u", user: { "auth-provider": { name: "gcp", config } } }],
        contexts: [{ name: "x", context: { cluster: "c", user: "u" } }],
        "current-context": "x",
      });
      writeFileSync(kubeconfig, text);
      const args = [bin, "status", "--kubeconfig", kubeconfig];
      const { stderr } = await runTool(process.execPath, args, { HOME: folder });
      assert.match(stderr, /is not the status of a Switchback controller/);
      assert.equal(api.calls[0]?.headers.authorization, "Bearer secret");
    } finally {
      await api.close();
    }
  });
});

describe("the chart", () => {
  test("is packaged by Helm, and by default installs the released image", async () => {
    const helm = await binary("helm");
    const packed = join(folder, `switchback-${version}.tgz`);
    execFileSync(helm, ["package", join(out, "chart"), "--destination", folder], { stdio: "pipe" });
    const rendered = execFileSync(helm, ["template", "--namespace", "switchback-system", packed], { encoding: "utf8" });
    assert.deepEqual(imagesIn(rendered), [`${REGISTRY}/switchback:${version}`]);
  });

  test("names the project's page, and the image for Artifact Hub", () => {
    const { home, sources, annotations } = parse(readFileSync(join(out, "chart/Chart.yaml"), "utf8"));
    assert.deepEqual([home, sources], [HOME, [HOME]]);
    const image = `${REGISTRY}/switchback:${version}`;
    assert.deepEqual(parse(annotations["artifacthub.io/images"]), [{ name: "switchback", image }]);
  });
});

test("install.yaml names the image by its digest", () => {
  assert.deepEqual(imagesIn(readFileSync(join(out, "install.yaml"), "utf8")), [`${REGISTRY}/switchback@${DIGEST}`]);
});

/** Each image of a Deployment's containers, once. */
function imagesIn(manifests: string): string[] {
  const objects = parseAllDocuments(manifests).map((document) => document.toJS());
  const containers = objects.flatMap((object) => object?.spec?.template?.spec?.containers ?? []);
  return [...new Set(containers.map(({ image }: { image: string }) => image))] as string[];
}

test("the notes have the version's changes, the command that installs it, and the contact", () => {
  const notes = readFileSync(join(out, "NOTES.md"), "utf8");
  assert.match(
    notes,
    new RegExp(`^## ${version}\n[\\s\\S]*\n### Install\n\n {4}helm install switchback oci://${REGISTRY}/`),
  );
  assert.match(notes, /\n### Report a vulnerability\n\nPrivately, to security@example\.com\.\n$/);
});

for (const [args, message] of [
  [[], /^release: --out is missing\nusage: npm run release /],
  [["--out", "x", "--registry", "https://example.com"], /^release: --registry https:\/\/example\.com: it must match /],
  [["--out", "x", "--digest", "latest"], /^release: --digest latest: it must match /],
  [["--out", "x", "--sign"], /^release: Unknown option '--sign'/],
] as const) {
  test(`\`npm run release -- ${args.join(" ")}\` is refused`, () => {
    const main = join(TOP, "tools/release/main.ts");
    const { status, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8", cwd: folder });
    assert.match(stderr, message);
    assert.equal(status, 2);
  });
}
