import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { afterEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { printable } from "#lib/errors/printable.ts";
import { runHere, switchback, useFiles } from "#test/fakes/cli.ts";
import { fullStatus } from "#test/fakes/full-status.ts";
import { addHolder, installed, NAMESPACE } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi, json } from "#test/fakes/kube-api.ts";

/** Clears the screen (7-bit and C1), reverses the text direction, and begins another line. */
const HOSTILE = "a\u001b[2J\u009b2J\u202e\u2028\u{e0001}\nshop/Deployment/web: restarted";
const SHOWN = String.raw`a\u001b[2J\u009b2J\u202e\u2028\udb40\udc01\nshop/Deployment/web: restarted`.replace(
  String.raw`\n`,
  String.raw`\u000a`,
);

const files = useFiles();
let api: FakeApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

async function run(...args: string[]) {
  return await runHere(args, { KUBECONFIG: await files.kubeconfig(api?.url ?? new URL("http://localhost:1")) });
}

/** Asserts that a terminal acts on nothing in the text except line feeds. */
function assertPrintable(text: string): void {
  assert.equal(text.split("\n").map(printable).join("\n"), text);
}

const NO_BUDGET = { code: "budget-spent", text: "" };

describe("text from tenants cannot control the terminal of", () => {
  it("uninstall --check: the name of a pod's owner", async () => {
    const server = installed();
    addHolder(server, "shop", "odd", ["Deployment", HOSTILE]);
    api = await fakeApi(server.respond);
    const { code, stdout } = await run("uninstall", "--check", "-n", NAMESPACE);
    assert.equal(code, 1);
    assertPrintable(stdout);
    assert.ok(stdout.includes(`     shop/Deployment/${SHOWN} (odd): `), stdout);
  });

  it("restart: the name and state of a workload, where only that workload is refused", async () => {
    const base = { namespace: "shop", kind: "Deployment", pods: 1, stale: 1, standing: "stuck", ...NO_BUDGET };
    const workloads = [
      { ...base, name: HOSTILE },
      { ...base, name: ".." },
      { ...base, name: "web" },
    ];
    const web = {
      metadata: { name: "web", uid: "1", resourceVersion: "1", generation: 1 },
      spec: {},
      status: { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 },
    };
    const running = { workloads, counts: { workloads: 3 }, omitted: 0 };
    api = await fakeApi((call) => {
      const status = { ...fullStatus({ names: [] }), running };
      if (call.path.endsWith("/status")) return json(status)(call);
      return call.path.endsWith("/deployments/web") ? json(web)(call) : json({ kind: "Status", code: 404 }, 404)(call);
    });
    const { code, stdout, stderr } = await run("restart", "shop", "--yes", "--switchback-namespace", NAMESPACE);
    assert.equal(code, 1);
    assertPrintable(stdout + stderr);
    assert.match(stderr, /^shop\/Deployment\/\.\. was not restarted: /m);
    assert.match(stdout, /^shop\/Deployment\/web is restarted$/m);
    assert.ok(stderr.startsWith(`shop/Deployment/${SHOWN} was not restarted: `), stderr);
  });

  it("inject: file names, names and values, which keep their values in the printed YAML", async () => {
    const hosts = await files.file("hosts", "203.0.113.5 a.example.com\n");
    const text = JSON.stringify(HOSTILE).slice(1, -1);
    const yaml = [
      "kind: Pod",
      `metadata: { name: "${text}", annotations: { plain: x\u202ey, "key\u009b": 'single\u200e' } }`,
      "spec: # comment \u001b[2J \u009b2J",
      `  quoted: "${text}"`,
      "  block: |",
      "    one\ttab \u202e",
      "",
      "    two",
      "",
    ].join("\n");
    const filename = await files.file(`a\u001b[2J\u202e.yaml`, yaml);
    const { code, stdout, stderr } = await switchback(["inject", "-f", filename, "--hosts", hosts]);
    assert.equal(code, 0, stderr);
    assertPrintable(stdout.replaceAll("\t", " "));
    assertPrintable(stderr);
    const { metadata, spec } = parse(stdout);
    assert.deepEqual([metadata.name, spec.quoted, spec.block], [HOSTILE, HOSTILE, "one\ttab \u202e\n\ntwo\n"]);
    assert.deepEqual([metadata.annotations.plain, metadata.annotations["key\u009b"]], ["x\u202ey", "single\u200e"]);
    const missing = await switchback(["inject", "-f", `${filename}x`, "--hosts", hosts]);
    assertPrintable(missing.stderr);
    assert.match(missing.stderr, /^switchback: cannot read .*a\\u001b\[2J\\u202e\.yamlx: there is no such file/);
  });

  it("every command with an unknown flag", async () => {
    const { code, stderr } = await switchback(["restart", `--\u001b[2J`]);
    assert.equal(code, 2);
    assertPrintable(stderr);
  });
});

describe("one writer", () => {
  it("stands between every command and the streams of the process", async () => {
    const root = fileURLToPath(new URL("../", import.meta.url));
    const found: string[] = [];
    for (const room of ["cli", "doctor", "extras", "lib/kube", "lib/workloads"]) {
      for (const file of await readdir(`${root}${room}`, { recursive: true })) {
        const isForTests = file.endsWith(".test.ts") || /(^|\/)(fakes|integration|e2e)\//.test(file);
        if (!file.endsWith(".ts") || isForTests) continue;
        const text = await readFile(`${root}${room}/${file}`, "utf8");
        if (/process\.std(out|err)|console\./.test(text)) found.push(`${room}/${file}`);
      }
    }
    // The prompt of `ask` prints only fixed questions. `completion` takes what its library prints.
    assert.deepEqual(found.sort(), ["cli/ask.ts", "cli/completion.ts", "cli/main.ts"]);
  });
});
