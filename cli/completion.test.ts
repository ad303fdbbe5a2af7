import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { switchback, useFiles } from "#test/fakes/cli.ts";

const files = useFiles();

/** The values that the program offers for the last of these words. */
async function offered(...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await switchback(["complete", "--", ...words]);
  assert.deepEqual([code, stderr], [0, ""]);
  return stdout.split("\n").flatMap((line) => (line === "" || line.startsWith(":") ? [] : (line.split("\t")[0] ?? "")));
}

describe("completion", () => {
  it("offers commands, options, their values and the shells, but nothing hidden", async () => {
    assert.deepEqual(await offered("st"), ["status"]);
    assert.deepEqual(await offered("install"), []);
    assert.deepEqual(await offered("status", "--na"), ["--namespace", "--name"]);
    assert.deepEqual(await offered("status", "-o", ""), ["text", "json", "yaml", "name"]);
    assert.deepEqual(await offered("completion", ""), ["bash", "zsh", "fish", "powershell"]);
  });

  it("offers files and folders where a command takes some", async () => {
    const folder = await files.folder("some", { "pod.yaml": "", "more/x.yaml": "" });
    assert.deepEqual((await offered("inject", `${folder}/`)).sort(), [`${folder}/more/`, `${folder}/pod.yaml`]);
    assert.deepEqual(await offered("inject", "--hosts", `${folder}/p`), [`${folder}/pod.yaml`]);
    assert.deepEqual(await offered("status", `${folder}/`), []);
  });

  it("has a script for bash that can be sourced again", () => {
    const script = `source <("$0" "$1" completion bash)`;
    const main = fileURLToPath(new URL("./main.ts", import.meta.url));
    const done = spawnSync("bash", ["-c", `${script}; ${script}; complete -p switchback`, process.execPath, main]);
    assert.deepEqual([done.status, String(done.stderr)], [0, ""]);
    assert.match(String(done.stdout), /switchback$/m);
  });

  for (const shell of ["bash", "zsh", "fish", "powershell"]) {
    it(`has a script for ${shell} that asks the program`, async () => {
      const { code, stdout } = await switchback(["completion", shell]);
      assert.equal(code, 0);
      assert.match(stdout, /switchback complete\b/);
      const isThere = spawnSync(shell, ["--version"]).status === 0;
      if (isThere) assert.equal(spawnSync(shell, ["-n"], { input: stdout }).status, 0);
    });
  }
});
