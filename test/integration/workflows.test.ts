import { deepEqual, match } from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { parse } from "yaml";
import { binary } from "../cluster/binaries.ts";

const WORKFLOWS = join(import.meta.dirname, "..", "..", ".github", "workflows");

const files = readdirSync(WORKFLOWS).map((file) => join(WORKFLOWS, file));

test("actionlint finds nothing in the workflows", async () => {
  const { status, stdout, stderr } = lint(await binary("actionlint"), files);
  deepEqual({ status, stdout, stderr }, { status: 0, stdout: "", stderr: "" });
});

test("actionlint would find a mistake", async () => {
  const job = "on: push\njobs:\n  one:\n    runs-on: ubuntu-24.04\n    steps:\n";
  const workflow = `${job}      - run: echo \${{ github.nothing }}\n`;
  const { status, stdout } = lint(await binary("actionlint"), ["-"], workflow);
  deepEqual(status, 1);
  match(stdout, /property "nothing" is not defined/);
});

test("each action is pinned to a commit, and only the job that signs gets an identity", () => {
  const texts = files.map((file) => readFileSync(file, "utf8"));
  const used = texts.flatMap((text) => text.match(/\buses: .*/g) ?? []);
  deepEqual(
    used.filter((line) => !/^uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(line)),
    [],
  );
  const jobs = texts.flatMap((text) => Object.entries<{ permissions?: object }>(parse(text).jobs));
  const signing = jobs.filter(([, { permissions }]) => JSON.stringify(permissions ?? {}).includes("id-token"));
  deepEqual(
    signing.map(([name]) => name),
    ["publish"],
  );
});

function lint(actionlint: string, files: readonly string[], input?: string) {
  // The result must not depend on other programs of this machine.
  const args = ["-shellcheck=", "-pyflakes=", "-no-color", ...files];
  return spawnSync(actionlint, args, { input, encoding: "utf8", timeout: 60_000 });
}
