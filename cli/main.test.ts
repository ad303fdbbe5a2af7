import assert from "node:assert/strict";
import { cpSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { runTool } from "#test/cluster/tools.ts";
import { runHere, switchback, useFiles } from "#test/fakes/cli.ts";
import { OBJECTS } from "#test/published.ts";

const files = useFiles();

describe("help", () => {
  it("lists every command in its group except hidden ones, users' commands first", async () => {
    const { code, stdout, stderr } = await switchback(["--help"]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^Usage: switchback \[options\] \[command\]\n\nMaps a cluster's own/);
    const groups = [...stdout.matchAll(/^([A-Z].*):\n((?: {2,}.*(?:\n|$))+)/gm)].slice(1);
    const names = groups.map(([, heading, lines = ""]) => {
      return [heading, [...lines.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name = ""]) => name)] as const;
    });
    assert.deepEqual(
      names.map(([heading, all]) => [heading, all.join(" ")]),
      [
        ["Find out", "doctor status dump demo dashboard"],
        ["Change", "inject restart uninstall"],
        ["This program", "completion help"],
        ["Components, which the chart starts", "controller webhook proxy all agent dns publish config"],
      ],
    );
  });

  it("of a command lists its options with their defaults", async () => {
    const { stdout } = await runHere(["restart", "--help"], {});
    assert.match(stdout, /^Usage: switchback restart \[options\] <namespace\[\/\[kind\/\]workload\]>\n/);
    assert.match(stdout, /--switchback-namespace <name> +namespace of Switchback itself \(default:\s+found\)/);
    assert.match(stdout, /--timeout <time> [^-]*\(default:\s+300\)/);
  });
});

it("the demo is not offered if it is not installed, as in the image", async () => {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const image = await files.folder("image", {});
  for (const name of ["cli", "extras", "lib", "package.json"])
    cpSync(join(root, name), join(image, name), { recursive: true, filter: (path) => !path.endsWith("/page") });
  symlinkSync(join(root, "node_modules"), join(image, "node_modules"));
  const main = join(image, "cli/main.ts");
  const help = await runTool(process.execPath, [main, "--help"], {});
  assert.deepEqual([help.code, help.stderr], [0, ""]);
  assert.ok(!help.stdout.includes("demo"));
  assert.ok(!help.stdout.includes("dashboard"));
  const { code, stderr } = await runTool(process.execPath, [main, "demo"], {});
  assert.equal(code, 2);
  assert.ok(stderr.includes("unknown command 'demo'"), stderr);
});

describe("a command gets its arguments and flags:", () => {
  const OURS = ["--switchback-namespace", "ours"];

  /** The path of the request that each command sends first. The error names it if the API server is unreachable. */
  for (const [name, args, path] of [
    ["status", OURS, `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`],
    [
      "status",
      ["-n", "shop"],
      "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook",
    ],
    ["restart", ["shop", "--yes", ...OURS], `/api/v1/namespaces/ours/secrets/${OBJECTS.statusKey}`],
    ["uninstall", ["--check", "-n", "ours"], "/api/v1/namespaces/ours/configmaps/switchback-config"],
    ["inject", ["-f", "/dev/null", "-n", "ours"], "/api/v1/namespaces/ours/configmaps?limit=500"],
  ] as const) {
    it(`${name} ${args.join(" ")}`, async () => {
      const kubeconfig = await files.kubeconfig(new URL("http://127.0.0.1:1"));
      const { code, stdout, stderr } = await switchback([name, ...args, "--kubeconfig", kubeconfig]);
      assert.deepEqual([code, stdout], [1, ""]);
      const [expected = ""] = path.split("?");
      // A slow machine also gets lines of progress. The error is the last line.
      assert.ok(stderr.trimEnd().split("\n").at(-1)?.startsWith(`switchback: GET ${expected}`), stderr);
    });
  }

  it("config", async () => {
    const file = await files.file("config.yaml", "namespace: ours");
    const flags = ["--config", file, "--set", "log.level=debug", "map.vanishSeconds=7"];
    const { code, stdout } = await switchback(["config", ...flags]);
    assert.equal(code, 0);
    const { config } = JSON.parse(stdout);
    assert.deepEqual([config.namespace, config.log.level, config.map.vanishSeconds], ["ours", "debug", 7]);
  });
});

it("an address that cannot be bound is a failure, and not bad input", async () => {
  const file = await files.file("config.yaml", "proxy: { address: 192.0.2.1, healthPort: 0 }");
  const { code, stderr } = await switchback(["proxy", "--config", file]);
  assert.equal(code, 1);
  assert.match(stderr, /cannot listen on 192\.0\.2\.1/);
});

it("without arguments prints the help", async () => {
  const [none, help] = await Promise.all([switchback([]), switchback(["--help"])]);
  assert.deepEqual(none, help);
});
