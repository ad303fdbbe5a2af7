import { fileURLToPath } from "node:url";
import { type BadInput, walk } from "#test/fakes/bad-input.ts";

// The script with which a component would start this program again.
process.argv = [process.execPath, fileURLToPath(new URL("../main.ts", import.meta.url))];

/** Commands that talk to a cluster, with the option for Switchback's namespace and the arguments that they need. */
const CLUSTER = [
  ["--switchback-namespace", "status"],
  ["--namespace", "uninstall", "--check"],
  ["--switchback-namespace", "restart", "shop"],
  ["--namespace", "doctor"],
  ["--namespace", "inject", "-f", "/dev/null"],
] as const;
const COMPONENTS = ["controller", "webhook", "proxy", "config"] as const;
const NAMESPACE = /argument '.*' is invalid\. Expected the name of a namespace: 1 to 63 lower case letters/;
const TIME = /argument '.*' is invalid\. Expected a number of seconds, or a time such as 90s, 5m or 1h, up to 24h\./;
const EMPTY = /argument '' is invalid\. It is empty: leave it out for the default\./;
const WORKLOAD =
  /^switchback: ".*": expected NAMESPACE, NAMESPACE\/NAME or NAMESPACE\/KIND\/NAME, such as shop\/deployment\/web, with the kind [^\n]*\n$/;

const PER_CLUSTER_COMMAND: readonly BadInput[] = CLUSTER.flatMap(([option, ...args]) => [
  { what: "no namespace", args: [...args, option, "Shop_1"], says: NAMESPACE },
  { what: "an empty namespace", args: [...args, option, ""], says: NAMESPACE },
  { what: "an empty kubeconfig", args: [...args, "--kubeconfig", ""], says: EMPTY },
  { what: "an empty context", args: [...args, "--context", ""], says: EMPTY },
  {
    what: "a context that is not there",
    args: [...args, "--context", "prod"],
    says: /^switchback: kubeconfig \S+: no context "prod"; available: x\n$/,
  },
  {
    what: "a kubeconfig that is not there",
    args: [...args, "--kubeconfig", "/nonexistent/config"],
    says: /^switchback: kubeconfig \/nonexistent\/config cannot be read: /,
  },
  {
    what: "no cluster",
    args,
    env: { KUBECONFIG: "", HOME: "/nonexistent" },
    says: /^switchback: no cluster configured: not in a pod, no --kubeconfig, no KUBECONFIG, no ~\/\.kube\/config(; with --hosts .*)?\n$/,
  },
  {
    what: "an unknown flag",
    args: [...args, "--frobnicate"],
    says: /^switchback: unknown option '--frobnicate'; see `switchback \w+ --help`\n$/,
  },
]);

walk("a cluster command refuses", PER_CLUSTER_COMMAND);

walk(
  "a component refuses",
  COMPONENTS.flatMap((name) => [
    { what: "an empty file name", args: [name, "--config", ""], says: EMPTY },
    {
      what: "a file that is not there",
      args: [name, "--config", "/nonexistent/c"],
      says: /\/nonexistent\/c: cannot be/,
    },
    {
      what: "a setting that is not there",
      args: [name, "--set", "no.such=1"],
      says: /unknown setting; accepted are \S+, \S+, \S+, /,
    },
    { what: "a wrong value", args: [name, "--set", "log.level=loud"], says: /log\.level: must be one of .*"debug"/ },
    {
      what: "a setting without a value",
      args: [name, "--set", "log.level"],
      says: /expected section\.setting=VALUE\n$/,
    },
    { what: "a file of another kind", args: [name, "--config", "FILE"], file: "hello", says: /map of sections/ },
    { what: "too many arguments", args: [name, "now"], says: /too many arguments/ },
  ]),
);

walk("the command line is refused:", [
  {
    what: "an unknown command",
    args: ["frobnicate"],
    says: /^switchback: unknown command 'frobnicate'; see `switchback --help`\n$/,
  },
  {
    what: "a misspelt command",
    args: ["statsu"],
    says: /^switchback: unknown command 'statsu' \(Did you mean status\?\)\n$/,
  },
  {
    what: "a flag without its value",
    args: ["status", "-n"],
    says: /option '-n, --namespace <name>' argument missing/,
  },
  { what: "too many arguments", args: ["status", "now"], says: /too many arguments/ },
  { what: "an unknown format", args: ["status", "-o", "xml"], says: /Allowed choices are text, / },
  { what: "an unknown format", args: ["doctor", "-o", "xml"], says: /Allowed choices are text, / },
  { what: "no namespace of objects", args: ["status", "-n", "Shop_1"], says: NAMESPACE },
  { what: "no shell", args: ["completion"], says: /missing required argument 'shell'/ },
  { what: "an unknown shell", args: ["completion", "csh"], says: /Allowed choices are bash, zsh, fish, powershell\./ },
  { what: "a directory that is not there", args: ["demo", "/nonexistent"], says: /\/nonexistent is not a readable/ },
]);

walk("uninstall refuses", [
  ...["abc", "0", "-1", "NaN", "Infinity", "1e3", "0x10", "5 m", "25h", "5d", ""].map((value) => ({
    what: "a time limit that is none",
    args: ["uninstall", "--yes", `--timeout=${value}`],
    says: TIME,
  })),
]);

walk("restart refuses", [
  ...["abc", "0", "-1", "2x", "99999999999"].map((value) => ({
    what: "a time limit that is none",
    args: ["restart", "shop", "--yes", `--timeout=${value}`],
    says: TIME,
  })),
  { what: "no workload", args: ["restart", "--yes"], says: /missing required argument 'namespace/ },
  ...["", "Shop", "shop/", "/web", "shop//web", "shop/deployment/", "a/b/c/d", "shop/Web", "shop/.."].map((what) => ({
    what: "what is no workload",
    args: ["restart", what, "--yes"],
    says: WORKLOAD,
  })),
]);

walk("doctor refuses", [
  { what: "no namespace", args: ["doctor", "--probe-namespace", "Default"], says: NAMESPACE },
  { what: "no image", args: ["doctor", "--image", "two words"], says: /Expected an image, such as registry\.example/ },
  { what: "no image", args: ["doctor", "--image", ""], says: /Expected an image/ },
]);
