import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { parse } from "yaml";
import { runTool } from "#test/cluster/tools.ts";
import { fakeApi, json } from "#test/fakes/kube-api.ts";
import { unpublished } from "#test/fakes/release.ts";
import { bundleCommand, OLDEST_NODE } from "../command/bundle.ts";
import { makeExecutable } from "../command/executable.ts";
import { archiveName, programName } from "../command/executables.ts";
import { krew } from "../command/krew.ts";
import { npmPackage, npmPackageFile } from "../command/npm-package.ts";
import { NODE_VERSION, PLATFORMS } from "../command/platforms.ts";
import { tryCommand } from "../command/try-command.ts";
import type { Release } from "../part.ts";

const TOP = join(import.meta.dirname, "..", "..", "..");
const { version, devDependencies } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8"));

const folder = mkdtempSync(join(tmpdir(), "switchback-command-"));
after(() => rmSync(folder, { recursive: true }));

const release = (name: string, more: Partial<Release> = {}): Release => {
  const out = join(folder, name);
  mkdirSync(out, { recursive: true });
  return unpublished({ out, version, ...more });
};

/** The files that the dashboard reads. */
const PAGE = ["app.css", "app.js", "index.html"].map((name) => `extras/dashboard/page/${name}`);

describe("the npm package", () => {
  const unpacked = join(folder, "npm", "package");
  const bin = join(unpacked, "cli", "bin.js");
  before(async () => {
    const made = release("npm");
    assert.deepEqual(await npmPackage.make(made), [npmPackageFile({ version })]);
    execFileSync("tar", ["-xzf", npmPackageFile({ version })], { cwd: made.out });
  });

  it("has only the files that it needs: no TypeScript, no packages, 5 MB", async () => {
    const files = globSync("**/*.*", { cwd: unpacked }).sort();
    assert.deepEqual(
      files.filter((path) => !path.startsWith("examples/demo/")),
      ["README.md", "SECURITY.md", "cli/bin.js", "cli/main.js", "package.json", "docs/codes.md", ...PAGE].sort(),
    );
    assert.deepEqual(globSync("*LICENSE*", { cwd: unpacked }).sort(), ["LICENSE", "THIRD-PARTY-LICENSES"]);
    assert.ok(readFileSync(join(unpacked, "cli", "main.js")).length < 5_000_000);
    const about = JSON.parse(readFileSync(join(unpacked, "package.json"), "utf8"));
    assert.deepEqual(
      [about.version, about.engines, about.bin],
      [version, { node: `>=${OLDEST_NODE}` }, { switchback: "cli/bin.js" }],
    );
    assert.equal(about.dependencies ?? about.private ?? about.scripts, undefined);
  });

  it("runs from a folder outside of the checkout and through a link, as npm installs it", async () => {
    const link = join(folder, "switchback");
    symlinkSync(bin, link);
    await tryCommand([process.execPath, link], version);
  });

  it("refuses an older Node and reports the needed version", async () => {
    const old = `data:text/javascript,Object.defineProperty(process.versions, "node", { value: "20.20.2" })`;
    const { code, stderr } = await runTool(process.execPath, ["--import", old, bin, "--help"], {});
    assert.equal(code, 2);
    assert.match(stderr, /^switchback: needs Node 22 or newer; this is v/);
  });

  it("reads a kubeconfig that needs the whole library, such as one with an auth provider's token", async () => {
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
      const { stderr } = await runTool(process.execPath, [bin, "version", "--kubeconfig", kubeconfig], {
        HOME: folder,
      });
      assert.match(stderr, /no Deployment of Switchback in namespace switchback-system/);
      assert.equal(api.calls[0]?.headers.authorization, "Bearer secret");
    } finally {
      await api.close();
    }
  });
});

describe("the executable for this machine", () => {
  const output = join(folder, "kubectl-switchback");
  let own: readonly string[];
  const make = (name: string) => {
    const platform = { os: "linux", arch: process.arch === "x64" ? "amd64" : "arm64" } as const;
    makeExecutable({ folder: join(folder, "bundle"), own, node: process.execPath, platform, output: name });
  };
  before(async () => {
    own = await bundleCommand(TOP, join(folder, "bundle"));
    make(output);
  });

  it("runs, and starts itself with only its own name", async () => {
    await tryCommand([output], version);
  });

  it("uses its code cache, whatever NODE_OPTIONS says", async () => {
    const { code, stderr } = await runTool(output, ["-V"], { NODE_DEBUG_NATIVE: "SEA", NODE_OPTIONS: "--nonsense" });
    assert.equal(code, 0);
    assert.match(stderr, /code cache accepted/);
  });

  it("has the same bytes when it is made again, and contains no path of the machine", () => {
    const hash = () => {
      const bytes = readFileSync(output);
      assert.ok(!bytes.includes(folder) && !bytes.includes(TOP));
      return createHash("sha256").update(bytes).digest("hex");
    };
    const first = hash();
    rmSync(output);
    make(output);
    assert.equal(hash(), first);
  });
});

it("the executables have the same Node version as the repository", () => {
  assert.equal(devDependencies.node, NODE_VERSION);
});

describe("the krew manifest", () => {
  const made = release("krew", { downloads: "https://example.com/v1", home: "https://example.com" });

  it("is refused without the executables", async () => {
    await assert.rejects(krew.make(made), /linux-amd64\.tar\.gz is missing: make the part executables first/);
  });

  it("names each archive with its address, its hash and its program", async () => {
    for (const platform of PLATFORMS) {
      const name = archiveName(version, platform);
      writeFileSync(join(made.out, name), name);
    }
    assert.deepEqual(await krew.make(made), ["krew/switchback.yaml"]);
    const text = readFileSync(join(made.out, "krew", "switchback.yaml"), "utf8");
    // krew-release-bot reads the text as a template.
    assert.doesNotMatch(text, /\{\{/);
    const { spec, metadata } = parse(text);
    assert.deepEqual([metadata.name, spec.version, spec.homepage], ["switchback", `v${version}`, made.home]);
    assert.equal(spec.platforms.length, 5);
    const windows = PLATFORMS.find(({ os }) => os === "windows");
    assert.ok(windows);
    const name = archiveName(version, windows);
    assert.deepEqual(spec.platforms.at(-1), {
      selector: { matchLabels: { os: "windows", arch: "amd64" } },
      uri: `https://example.com/v1/${name}`,
      sha256: createHash("sha256").update(name).digest("hex"),
      bin: programName(windows),
    });
    // krew's index requires this.
    assert.ok(spec.shortDescription.length <= 50 && !spec.shortDescription.endsWith("."));
  });

  it("has a comment that its addresses do not work if the downloads address is missing", async () => {
    await krew.make({ ...made, downloads: undefined });
    const text = readFileSync(join(made.out, "krew", "switchback.yaml"), "utf8");
    assert.match(
      text,
      /^# Made without --downloads: .*\n[\s\S]*uri: https:\/\/downloads\.invalid\/kubectl-switchback-/,
    );
  });
});
