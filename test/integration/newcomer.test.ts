import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { after, before, test } from "node:test";

// What the README and docs/install.md ask a newcomer to type, as it stands there, in a clone and with a home directory
// that has nothing in it. Only npm's cache is the machine's: what `npm ci` downloads is the same, and each run of the
// tests would fetch 150 MB. The Node is the one that the newcomer has; but for what takes a newer one than some have,
// it is this repository's.

const TOP = join(import.meta.dirname, "..", "..");

const { version } = JSON.parse(readFileSync(join(TOP, "package.json"), "utf8")) as { version: string };
/** What it says of a machine that has no kubeconfig: it has been found, and has been loaded. */
const NO_CLUSTER = /^switchback: no cluster configured/m;

/** The commands that need no cluster, in the order of the pages, with what they print. */
const HERE: ReadonlyMap<string, RegExp> = new Map([
  ["npm ci", /^added \d+ packages/m],
  ["npx switchback doctor", NO_CLUSTER],
  ["npm run demo", /^ {2}through the relay: 200 Ingress shop\/added; client /m],
  ["npm run release -- --out ../switchback-files --only npm", /npm: switchback-npm-\S+\.tgz$/m],
  [`npm install --global ../switchback-files/switchback-npm-${version}.tgz`, /^added 1 package/m],
  ["switchback version --client", new RegExp(`^switchback ${version}$`, "m")],
  ["switchback doctor", NO_CLUSTER],
]);

/** The rest of the same sections, and what runs it. */
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

/** The package that is installed globally takes Node 22.11; `npm ci` brings its own. */
function pathFor(command: string): string {
  const node = command.startsWith("switchback ") ? [dirname(process.execPath)] : [];
  return [join(home, "bin"), ...node, ...path].join(delimiter);
}

/** The working tree as it is, committed: a release is made of commits. */
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

/** The lines of a section that stand as code, without their comments. A line goes on after a backslash. */
function commandsOf([page, section]: (typeof SECTIONS)[number]): string[] {
  const text = readFileSync(join(TOP, page), "utf8").replaceAll(/\\\n\s+/g, "");
  const [, rest] = text.split(`\n## ${section}\n`);
  assert.ok(rest !== undefined, `${page} has no section ${section}`);
  const lines = rest.split("\n## ")[0]?.split("\n") ?? [];
  return lines.filter((line) => line.startsWith("    ")).map((line) => line.replace(/ +#.*/, "").trim());
}

before(makeClone);
after(() => rmSync(folder, { recursive: true }));

test("the first commands are those that are run here or elsewhere", () => {
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
