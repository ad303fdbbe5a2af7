import assert from "node:assert/strict";
import { cpSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { statusSecretData } from "#lib/documents/status-page.ts";
import { runTool } from "#test/cluster/tools.ts";
import { captured, clusterFlags, componentFlags, connectFlags, helpOf, switchback, useFiles } from "#test/fakes/cli.ts";
import { fakeApi, json, refuse } from "#test/fakes/kube-api.ts";
import { OBJECTS } from "#test/published.ts";
import { createProgram } from "./program.ts";

const files = useFiles();

const HELP = "-h, --help";
const COMPONENT = [...componentFlags, HELP];
const CONFIG = ["--config <file>", "--set <path=value...>", HELP];
const CLUSTER = clusterFlags;
const OBJECTS_OF = [...connectFlags, "--switchback-namespace <name> (found)"];

/** Each command of the core with its usage, its flags and their defaults. */
const COMMANDS: readonly [usage: string, ...flags: string[]][] = [
  ["controller [options]", ...COMPONENT],
  ["webhook [options]", ...COMPONENT],
  ["proxy [options]", ...COMPONENT],
  ["all [options]", ...COMPONENT],
  ["config [options]", ...CONFIG.slice(0, -1), "--ignore-unknown", HELP],
  ["demo [options] [directory]", "--dashboard", HELP],
  [
    "inject [options] [files...]",
    ...CLUSTER,
    "-f, --filename <file...>",
    "-R, --recursive",
    "--hosts <file>",
    "--template-path <kind=path...>",
    "--opted-in",
    "--strict",
    "--max-names <n>",
    "--long-line",
    HELP,
  ],
  ["uninstall [options]", ...CLUSTER, "--check", "--force", "--timeout <time> (240)", "--yes", HELP],
  [
    "status [options]",
    ...OBJECTS_OF,
    "-o, --output <format> (text)",
    "-n, --namespace <name>",
    "-A, --all-namespaces",
    "--name <pattern>",
    "--refused",
    "--stuck",
    "--from <file>",
    HELP,
  ],
  ["restart [options] <namespace[/[kind/]workload]>", ...OBJECTS_OF, "--timeout <time> (300)", "--yes", HELP],
  [
    "doctor [options]",
    ...CLUSTER,
    "--probe",
    "--no-probe",
    "--probe-namespace <name> (default)",
    "--strict",
    "--image <image>",
    "--from <file>",
    "-o, --output <format> (text)",
    HELP,
  ],
  ["dump [options]", ...CLUSTER, "--probe-namespace <name> (default)", "--redact", HELP],
  ["completion [options] <shell>", HELP],
];

const COMMANDS_OF_EXTRAS: typeof COMMANDS = [
  ["agent [options]", ...COMPONENT],
  ["dns [options]", ...COMPONENT],
  ["publish [options] <publisher>", ...componentFlags, "--remove", "--yes", ...connectFlags, HELP],
  ["dashboard [options]", ...CLUSTER, "--port <n>", "--no-open", HELP],
];

describe("help", () => {
  it("lists every command in its group except hidden ones, users' commands first", async () => {
    const { code, stdout, stderr } = await switchback(["--help"]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.match(stdout, /^Usage: switchback \[options\] \[command\]\n\nMaps a cluster's own/);
    const groups = [...stdout.matchAll(/^([A-Z].*):\n((?: {2,}.*(?:\n|$))+)/gm)].slice(1);
    const names = groups.map(([, heading, lines = ""]) => {
      return [heading, [...lines.matchAll(/^ {2}([a-z]+)\b/gm)].map(([, name = ""]) => name)] as const;
    });
    const ofCore = [...COMMANDS.map(([usage]) => usage.split(" ")[0] ?? ""), "help"];
    assert.deepEqual(
      names.map(([heading, all]) => [heading, all.filter((name) => ofCore.includes(name)).join(" ")]),
      [
        ["Find out", "doctor status dump demo"],
        ["Change", "inject restart uninstall"],
        ["This program", "completion help"],
        ["Components, which the chart starts", "controller webhook proxy all config"],
      ],
    );
    const { commands } = await createProgram(captured().context, () => {});
    const all = commands.map((command) => command.name());
    const visible = all.filter((name) => !["complete", "install-check"].includes(name)).concat("help");
    assert.deepEqual(names.flatMap(([, listed]) => listed).sort(), visible.sort());
  });

  for (const [usage, ...flags] of [...COMMANDS, ...COMMANDS_OF_EXTRAS]) {
    const [name = ""] = usage.split(" ");
    it(`of ${name} lists its flags and their defaults`, async () => {
      assert.deepEqual(await helpOf(name), { usage, flags });
    });
  }
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
    ["status", ["-n", "shop"], `/api/v1/namespaces/switchback-system/secrets/${OBJECTS.statusKey}`],
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

  it("restart, whose exit code reports that a workload was not restarted", async () => {
    const workload = { namespace: "shop", kind: "Deployment", name: "web", pods: 1, stale: 1, standing: "stuck" };
    const status = {
      leader: true,
      identity: "c",
      warnings: [],
      targets: [],
      names: [],
      running: { workloads: [workload] },
    };
    const key = { data: statusSecretData("k".repeat(40)) };
    const api = await fakeApi((call) => {
      if (call.path.endsWith(`/${OBJECTS.statusKey}`)) return json(key)(call);
      return (call.path.endsWith("/proxy/status") ? json(status) : refuse(403, "Forbidden"))(call);
    });
    try {
      const kubeconfig = await files.kubeconfig(api.url);
      const { code, stderr } = await switchback(["restart", "shop/web", "--yes", "--kubeconfig", kubeconfig]);
      assert.equal(code, 1);
      assert.match(stderr, /^Deployment shop\/web was not restarted: /);
    } finally {
      await api.close();
    }
  });

  it("config", async () => {
    const file = await files.file("config.yaml", "namespace: ours");
    const { code, stdout } = await switchback([
      "config",
      "--config",
      file,
      "--set",
      "log.level=debug",
      "map.vanishSeconds=7",
    ]);
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
