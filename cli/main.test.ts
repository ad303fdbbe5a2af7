import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { filesFolder, switchback } from "../test/fakes/cli.ts";

let files: Awaited<ReturnType<typeof filesFolder>>;
before(async () => {
  files = await filesFolder();
});
after(() => files.remove());

describe("help", () => {
  it("lists every command, on standard output, and is no failure", async () => {
    const { code, stdout, stderr } = await switchback(["--help"]);
    assert.deepEqual([code, stderr], [0, ""]);
    for (const command of ["controller", "webhook", "proxy", "demo", "inject", "confirm", "doctor"]) {
      assert.match(stdout, new RegExp(`^ {2}${command} `, "m"));
    }
  });

  it("of a command lists its flags", async () => {
    const { code, stdout } = await switchback(["inject", "--help"]);
    assert.equal(code, 0);
    for (const flag of ["--filename <file>", "--hosts <file>", "--max-names <n>", "--long-line"]) {
      assert.ok(stdout.includes(flag), flag);
    }
  });
});

describe("a command line that is wrong exits with 2 and says how it is right:", () => {
  for (const [what, args, expected] of [
    ["no command", [], /^Usage: switchback \[options\] \[command\]/],
    ["an unknown command", ["inspect"], /unknown command 'inspect'[\s\S]*Usage: switchback/],
    ["an unknown flag", ["confirm", "--force"], /unknown option '--force'[\s\S]*Usage: switchback confirm/],
    ["a flag without its value", ["confirm", "--namespace"], /option '--namespace <name>' argument missing/],
    ["a required flag left out", ["inject"], /required option '-f, --filename <file>' not specified/],
    ["too many arguments", ["confirm", "now"], /too many arguments/],
  ] as const) {
    it(what, async () => {
      const { code, stdout, stderr } = await switchback([...args]);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.match(stderr, expected);
    });
  }
});

describe("a configuration that is wrong stops the start with 2 and names the place:", () => {
  const CASES: [what: string, component: string, yaml: string, ...expected: RegExp[]][] = [
    ["a wrong type", "controller", "controller: { port: x }", /: controller\.port: .*expected number/],
    ["an unknown key", "webhook", "webhook: { prot: 8443 }", /: webhook\.prot: .*healthPort/],
    ["a value that is not accepted", "proxy", "log: { level: loud }", /: log\.level: .*"debug"/],
    ["a place in a list", "proxy", "targets: [{ name: X }]", /: targets\[0\]\.name: /],
    ["YAML that does not parse", "controller", "a: [", /is not valid YAML/],
    ["no map at all", "controller", "hello", /expected a map of sections/],
    [
      "each of several, on a line of its own",
      "controller",
      "controller: { port: -1 }\nmap: { vanishSeconds: -1 }",
      /^switchback: \S+: controller\.port: .*$/m,
      /^switchback: \S+: map\.vanishSeconds: .*$/m,
    ],
  ];
  for (const [what, component, yaml, ...expected] of CASES) {
    it(what, async () => {
      const file = await files.file("config.yaml", yaml);
      const { code, stdout, stderr } = await switchback([component, "--config", file]);
      assert.deepEqual([code, stdout], [2, ""]);
      assert.ok(stderr.startsWith(`switchback: ${file}`), stderr);
      for (const line of expected) assert.match(stderr, line);
    });
  }

  it("a file that is not there", async () => {
    const { code, stderr } = await switchback(["webhook", "--config", "/nonexistent/config.yaml"]);
    assert.equal(code, 2);
    assert.match(stderr, /^switchback: \/nonexistent\/config\.yaml: cannot be read: ENOENT/);
  });

  it("a --set, and a variable", async () => {
    const flag = await switchback(["controller", "--set", "controller.port=x"]);
    assert.equal(flag.code, 2);
    assert.match(flag.stderr, /^switchback: --set controller\.port: controller\.port: .*expected number/);
    const unknown = await switchback(["controller", "--set", "no.such=1"]);
    assert.equal(unknown.code, 2);
    assert.match(unknown.stderr, /^switchback: --set no\.such=1: expected path=value; the paths are .*log\.level/);
    const variable = await switchback(["controller"], { SWITCHBACK_LOG_LEVEL: "loud" });
    assert.equal(variable.code, 2);
    assert.match(variable.stderr, /^switchback: SWITCHBACK_LOG_LEVEL: log\.level: /);
  });

  it("no cluster configured", async () => {
    for (const args of [["controller"], ["confirm"], ["inject", "-f", "/dev/null"]]) {
      const { code, stderr } = await switchback(args, { HOME: "/nonexistent" });
      assert.equal(code, 2, args.join(" "));
      assert.match(stderr, /no cluster configured: not in a pod, no --kubeconfig, no KUBECONFIG/);
    }
    const missing = await switchback(["confirm", "--kubeconfig", "/nonexistent/config"]);
    assert.equal(missing.code, 2);
    assert.match(missing.stderr, /\/nonexistent\/config/);
  });
});

describe("a failure that is not the input's", () => {
  it("exits with 1, and tells the cause", async () => {
    const kubeconfig = await files.kubeconfig(new URL("http://127.0.0.1:1"));
    const { code, stdout, stderr } = await switchback(["confirm", "--yes", "--kubeconfig", kubeconfig]);
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(
      stderr,
      /^switchback: GET \/api\/v1\/namespaces\/switchback-system\/configmaps\/switchback-hosts.*ECONNREFUSED/,
    );
  });

  it("is an address that cannot be bound", async () => {
    const file = await files.file("config.yaml", "proxy: { address: 192.0.2.1, healthPort: 0 }");
    const { code, stderr } = await switchback(["proxy", "--config", file]);
    assert.equal(code, 1);
    assert.match(stderr, /cannot listen on 192\.0\.2\.1/);
  });
});
