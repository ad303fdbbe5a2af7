import { fileURLToPath } from "node:url";
import { type BadInput, walk } from "#test/fakes/bad-input.ts";

// The script with which a component would start this program again.
process.argv = [process.execPath, fileURLToPath(new URL("../main.ts", import.meta.url))];

// Forty common mistakes, one per line. Each prints at most five lines, and the last one names the cause.

const KUBECONFIG = {
  apiVersion: "v1",
  clusters: [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }],
  users: [{ name: "u", user: {} }],
  contexts: Array.from({ length: 40 }, (_, at) => ({ name: `prod-${at}`, context: { cluster: "c", user: "u" } })),
};
const FILES = {
  "pod.yaml": "kind: Pod\nmetadata: { name: p }\nspec: { containers: [] }\n",
  "tabs.yaml": "kind: Pod\nspec:\n\tcontainers: []\n",
  "bare.yaml": "kind: Deployment\nmetadata: { name: w }\n",
  "many.yaml": Array(50).fill("kind: Deployment\n").join("---\n"),
  "kind.yaml": "apiVersion: apps/v1\nkind: Deploymnet\n",
  hosts: "203.0.113.5 a.example.com\n",
  "swapped-hosts": "a.example.com 203.0.113.5\n",
  "empty-hosts": "",
  "type.yaml": "webhook: { port: https }\n",
  "typo.yaml": "proxy: { maxConections: 5 }\n",
  "wrong.yaml": "controller: { port: x }\nwebhook: { port: x }\nlog: { level: x }\nmap: { shards: x }\n",
  "list.yaml": "- targets\n",
  "broken.yaml": "targets: [\n",
  kubeconfig: JSON.stringify(KUBECONFIG),
};

const FORTY: readonly [args: string, cause: RegExp][] = [
  ["help statsu", /^switchback: unknown command; see `switchback --help`$/],
  ["frobnicate", /^switchback: unknown command 'frobnicate'; see `switchback --help`$/],
  ["statsu", /^switchback: unknown command 'statsu' \(Did you mean status\?\)$/],
  ["--frobnicate", /^switchback: unknown option '--frobnicate'; see `switchback --help`$/],
  ["status --frobnicate", /^switchback: unknown option '--frobnicate'; see `switchback status --help`$/],
  ["status --stcuk", /^switchback: unknown option '--stcuk' \(Did you mean --stuck\?\)$/],
  ["status shop", /^switchback: too many arguments for 'status'\. Expected 0 .*; see `switchback status --help`$/],
  ["status -o xml", /'xml' is invalid\. Allowed choices are text, json, yaml, name\.$/],
  ["status -o", /^switchback: option '-o, --output <format>' argument missing; see `switchback status --help`$/],
  ["status -n Shop_1", /'Shop_1' is invalid\. Expected a namespace: 1 to 63 lower case letters/],
  ["status --from DIR/absent", /^switchback: cannot read \S+absent: there is no such file$/],
  ["status --from DIR/hosts", /^switchback: \S+hosts: it has no object of Kubernetes; --from reads what `kubectl get /],
  ["status --from x --as y", /option '--from <file>' cannot be used with option '--as <user>'$/],
  ["doctor --kubeconfig DIR/absent", /^switchback: --kubeconfig \S+absent: there is no such file$/],
  ["doctor --kubeconfig DIR/hosts", /^switchback: kubeconfig \S+hosts: no context ""/],
  ["doctor --kubeconfig DIR/kubeconfig --context prod-99", /no context "prod-99"; available: .*, .* and 34 more$/],
  ["doctor --context y", /^switchback: kubeconfig \S+: no context "y"; available: x$/],
  ["doctor --image=", /argument '' is invalid\. It is empty: leave it out for the default\.$/],
  ["doctor --from x --no-probe", /option '--from <file>' cannot be used with option '--no-probe'$/],
  ["restart", /^switchback: missing required argument 'namespace.*'; see `switchback restart --help`$/],
  ["restart Shop", /^switchback: "Shop": expected NAMESPACE, NAMESPACE\/NAME or NAMESPACE\/KIND\/NAME/],
  ["restart shop --timeout 5d", /'5d' is invalid\. Expected a number of seconds, or a time such as 90s, 5m or 1h/],
  ["uninstall --remains", /unknown option '--remains'/],
  ["completion csh", /'csh' is invalid\. Allowed choices are bash, zsh, fish, powershell\.$/],
  ["demo DIR/absent", /^switchback: too many arguments for 'demo'\. Expected 0 .*; see `switchback demo --help`$/],
  ["inject", /^switchback: no file is given: name files or directories, or - for standard input$/],
  ["inject DIR/absent.yaml --hosts DIR/hosts", /^switchback: cannot read \S+absent\.yaml: there is no such file$/],
  [
    "inject DIR/pod.yaml --hosts DIR/swapped-hosts",
    /swapped-hosts:1: .*"a\.example\.com" is not an IP address; no name is left/,
  ],
  ["inject DIR/pod.yaml --hosts DIR/empty-hosts", /empty-hosts: it has no names; accepted are lines such as /],
  ["inject --strict DIR/tabs.yaml --hosts DIR/hosts", /tabs\.yaml:\d: not injected \(yaml-invalid\): /],
  ["inject DIR/bare.yaml --hosts DIR/hosts", /Deployment w: not injected \(no-pod-template\): spec\.template\.spec is/],
  ["inject DIR/many.yaml --hosts DIR/hosts", /many\.yaml:7: not injected \(no-pod-template\): .* is missing$/],
  ["inject --strict DIR/kind.yaml --hosts DIR/hosts", /--strict: no pods or workloads found$/],
  ["inject DIR/pod.yaml --max-names 0", /'0' is invalid\. Expected a whole number from 1 to 1000000\.$/],
  ["config --config DIR/type.yaml", /^switchback: \S+type\.yaml: webhook\.port: must be a number, not a string$/],
  ["config --config DIR/typo.yaml", /proxy\.maxConections: unknown setting; accepted are .* maxConnections, /],
  ["config --config DIR/wrong.yaml", /^switchback: \S+wrong\.yaml: \S+: must be /],
  ["config --config DIR/list.yaml", /list\.yaml: expected a map of sections, such as `targets:` and `policy:`$/],
  ["config --set webhook.prot=1", /--set webhook\.prot: webhook\.prot: unknown setting; accepted are .*port, /],
  ["webhook --config DIR/broken.yaml", /broken\.yaml: is not valid YAML: Flow sequence/],
];

const refused = (what: string, args: readonly string[], says: RegExp, more: Partial<BadInput> = {}): BadInput => {
  return { what, args, files: FILES, says, isLast: true, ...more };
};

walk(
  `${FORTY.length} bad inputs:`,
  FORTY.map(([args, says]) => refused("the cause is last", args.split(" ").filter(Boolean), says)),
);

const EMPTY = /argument '' is invalid\. It is empty: leave it out for the default\.$/;
const NAMESPACE = /argument '.*' is invalid\. Expected a namespace: 1 to 63 lower case letters/;
const TIME = /argument '.*' is invalid\. Expected a number of seconds, or a time such as 90s, 5m or 1h, up to 24h\./;
const WORKLOAD =
  /^switchback: ".*": expected NAMESPACE, NAMESPACE\/NAME or NAMESPACE\/KIND\/NAME, such as .*, with the kind /;
const CLUSTER =
  /^switchback: no cluster configured: not in a pod, no --kubeconfig, no KUBECONFIG, no ~\/\.kube\/config(; .*)?$/;

walk("a value of an option is refused:", [
  ...["--kubeconfig", "--context", "--from"].map((option) => refused("empty", ["status", option, ""], EMPTY)),
  refused("empty", ["webhook", "--config", ""], EMPTY),
  refused("empty", ["inject", "-f", ""], EMPTY),
  ...["--namespace", "--switchback-namespace"].map((option) => refused("empty", ["status", option, ""], NAMESPACE)),
  refused("no namespace", ["doctor", "--probe-namespace", "Default"], NAMESPACE),
  ...["abc", "0", "-1", "NaN", "Infinity", "1e3", "0x10", "5 m", "25h", "2x", "99999999999", ""].map((time) =>
    refused("no time", ["uninstall", "--yes", `--timeout=${time}`], TIME),
  ),
]);

walk(
  "restart refuses",
  ["", "/", "shop/", "/web", "shop//web", "shop/deployment/", "shop/deployment.apps/web", "shop/deploymnt/web"]
    .concat("a/b/c/d", "shop/Web", "a.b/web", "shop/../web", "shop/..", "a".repeat(64), "shop/web\n")
    .map((what) => refused("what is no workload", ["restart", what, "--yes"], WORKLOAD)),
);

const ADVICE =
  /; --kubeconfig FILE names a cluster, --from FILE reads one from a file, and `switchback demo` needs none$/;

walk("each command refuses", [
  refused("no cluster, with advice", ["doctor"], ADVICE, { env: { KUBECONFIG: "", HOME: "/nonexistent" } }),
  ...[["status"], ["uninstall", "--check"], ["restart", "shop"], ["doctor"], ["inject", "-f", "/dev/null"]].map(
    (args) => refused("no cluster", args, CLUSTER, { env: { KUBECONFIG: "", HOME: "/nonexistent" } }),
  ),
  ...["controller", "webhook", "proxy", "config"].flatMap((name) => [
    refused("a file that is not there", [name, "--config", "/nonexistent/c"], /\/nonexistent\/c: cannot be/),
    refused("a wrong value", [name, "--set", "log.level=loud"], /log\.level: must be one of .*"debug"/),
    refused("a setting without a value", [name, "--set", "log.level"], /expected section\.setting=VALUE$/),
  ]),
]);
