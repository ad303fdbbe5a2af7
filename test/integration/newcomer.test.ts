import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";

// The commands that README.md and docs/install.md ask a newcomer to type, exactly as written, in a clone and with an
// empty home directory. Only npm's cache is the machine's: `npm ci` downloads the same files, and each run of the
// tests would fetch 150 MB. The newcomer's Node runs them, except commands that need a newer Node than some newcomers
// have: this repository's Node runs those.

const TOP = join(import.meta.dirname, "..", "..");

const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
/** The output on a machine that has no kubeconfig. It shows that the command was found and loaded. */
const NO_CLUSTER = /^switchback: no cluster configured/m;

/** The commands that need no cluster, in the order of the pages, with what they print. */
const HERE: ReadonlyMap<string, RegExp> = new Map([
  ["npm ci", /^added \d+ packages/m],
  ["npx switchback doctor", NO_CLUSTER],
  ["npm run demo", /^Through the relay each name answers/m],
  ["npm run release -- --out ../switchback-files", /switchback-files: chart, npm, install\.yaml, NOTES\.md$/m],
  ["npm install --global --install-links ../switchback-files/npm", /^added 1 package/m],
  ["switchback --version", new RegExp(`^${version}$`, "m")],
  ["switchback doctor", NO_CLUSTER],
]);

/** The other commands of the same sections, and what runs them. */
const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  [
    "kubectl run hairpin --rm -it --restart=Never --image=curlimages/curl --command -- " +
      "curl -sSI http://shop.example.com --next --haproxy-protocol -sSI http://shop.example.com",
    "nothing: it takes a cluster and an image of others",
  ],
]);

const SECTIONS = [
  ["README.md", "Do I have this problem?"],
  ["README.md", "Try it without a cluster"],
  ["docs/install.md", "The command"],
] as const;

const folder = mkdtempSync(join(tmpdir(), "switchback-newcomer-"));
const [clone, home] = [join(folder, "switchback"), join(folder, "home")];
const isOurs = (path: string) => path.endsWith(join("node_modules", ".bin"));
const path = (process.env.PATH ?? "").split(delimiter).filter((one) => !isOurs(one));
const env = {
  HOME: home,
  npm_config_prefix: home,
  npm_config_prefer_offline: "true",
};

/** The globally installed package needs Node 22.11; `npm ci` installs its own Node. */
function pathFor(command: string): string {
  const node = command.startsWith("switchback ") ? [dirname(process.execPath)] : [];
  return [join(home, "bin"), ...node, ...path].join(delimiter);
}

/** Commits the working tree as it is, because a release is made of commits. */
function makeClone(): void {
  const git = (...args: string[]) =>
    execFileSync("git", ["-C", clone, ...args], { env: { ...env, PATH: pathFor("git") } });
  mkdirSync(home);
  mkdirSync(clone);
  const listed = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "-z"], { cwd: TOP });
  for (const file of new Set(listed.toString().split("\0")))
    if (file !== "" && existsSync(join(TOP, file))) cpSync(join(TOP, file), join(clone, file));
  git("init", "--quiet");
  git("add", ".");
  git("-c", "user.name=newcomer", "-c", "user.email=newcomer@example.com", "commit", "--quiet", "--message", "all");
}

function npmCache(): string {
  return execFileSync("npm", ["config", "get", "cache"], { encoding: "utf8", cwd: tmpdir() }).trim();
}

/** The code lines of a section, without their comments. A command continues on the next line after a backslash. */
function commandsOf([page, section]: (typeof SECTIONS)[number]): string[] {
  const text = readFileSync(join(TOP, page), "utf8").replaceAll(/\\\n\s+/g, "");
  const [, rest] = text.split(`\n## ${section}\n`);
  assert.ok(rest !== undefined, `${page} has no section ${section}`);
  const lines = rest.split("\n## ")[0]?.split("\n") ?? [];
  return lines.filter((line) => line.startsWith("    ")).map((line) => line.replace(/ +#.*/, "").trim());
}

before(makeClone);
after(() => rmSync(folder, { recursive: true }));

test("the first commands of the pages are run here or elsewhere", () => {
  const known = new Set([...HERE.keys(), ...ELSEWHERE.keys()]);
  const written = new Set(SECTIONS.flatMap(commandsOf));
  assert.deepEqual(
    [...written].filter((command) => !known.has(command)),
    [],
  );
  assert.deepEqual(
    [...known].filter((command) => !written.has(command)),
    [],
  );
});

test("they do what the pages say, one after the other", (t) => {
  const cache = npmCache();
  for (const [command, expected] of HERE) {
    const started = performance.now();
    const { stdout, stderr } = spawnSync("bash", ["-c", command], {
      cwd: clone,
      env: { ...env, PATH: pathFor(command), npm_config_cache: cache },
      encoding: "utf8",
    });
    assert.match(`${stdout}${stderr}`, expected, `${command}:\n${stdout}\n${stderr}`);
    t.diagnostic(`${command}: ${Math.round((performance.now() - started) / 1000)} s`);
  }
});
