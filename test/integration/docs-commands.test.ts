import assert from "node:assert/strict";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { binary } from "../cluster/binaries.ts";
import { runTool, SWITCHBACK, type ToolResult } from "../cluster/tools.ts";
import { ingress, namespaceYaml, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem } from "./system.ts";

// The commands of the pages, typed as a reader types them, on a real API server with Switchback. A command that does
// not run here is listed with what runs it, or with the reason why nothing does.

const ROOT = join(import.meta.dirname, "..", "..");
const PAGES = ["README.md", ...globSync("docs/**/*.md", { cwd: ROOT })];
const PROGRAMS =
  /^(?:kubectl|helm|switchback|docker|npm|npx|node|ibmcloud|cosign|gh|sha256sum|contour|source|git|curl|ctr|tar) /;
/** This checkout's chart, in place of the released one. */
const CHART = join(ROOT, "manifests", "chart");

/** Commands that are not run here, by a pattern, and why. */
const ELSEWHERE: ReadonlyArray<readonly [pattern: RegExp, why: string]> = [
  [
    /^node --test|^npm (?:ci|test|install|run (?:demo|test:|release -- --out \.\.))|^npx /,
    "test/integration/newcomer.test.ts, or this run itself",
  ],
  [/^npm run (?:bench|cluster|e2e)/, "measurements take minutes, and their parts have tests; .ci/run has the rest"],
  [/^npm run release/, "test/e2e/97-release.test.ts"],
  [/^docker /, "there is no registry; test/e2e/97-release.test.ts builds and imports the image"],
  [/^helm (?:package|push) |^npm (?:publish|audit signatures)/, "tools/release/integration; there is no registry"],
  [/^(?:ibmcloud|contour) /, "a program of somebody else, which no registry of packages has"],
  [/^sha256sum /, "tools/release/integration/workflow.test.ts writes the file"],
  [/^(?:cosign|helm pull) /, "there is no registry, and nothing signs here: docs/release.md says so"],
  [/^source |^switchback completion/, "cli/completion.test.ts"],
  [/^helm install /, "test/integration/install-chart.test.ts, by the README's own words"],
  [/^helm upgrade .*prometheusRule/, "test/integration/chart-monitoring.test.ts, with the operator's definitions"],
  [/^helm (?:rollback|uninstall) |^switchback uninstall(?! --check)/, "test/e2e/60 and 90; test/integration/uninstall"],
  [
    /^switchback publish \S+ --remove/,
    "extras/publishers/integration/publishers.test.ts; it waits minutes for CoreDNS",
  ],
  [/^kubectl apply --server-side -f manifests/, "test/integration/install.test.ts: here Helm has installed it"],
  [
    /^kubectl delete (?:namespace switchback-system|mutatingwebhook)|delete job switchback-uninstall/,
    "test/e2e/90-uninstall.test.ts",
  ],
  [/^kubectl (?:\S+ )*(?:logs|exec|run) /, "no container runs here; test/e2e/10-healed.test.ts, and 75"],
  [/^switchback doctor .*--probe/, "test/e2e/75-doctor.test.ts"],
  [/^switchback dashboard/, "it serves until it is ended: extras/dashboard/page/integration"],
];

/**
 * Replacements for the reader's own values. Options in brackets are left out: test/docs/commands.test.ts has them.
 */
const SUBSTITUTES: ReadonlyArray<readonly [pattern: RegExp, text: string]> = [
  [/ \[-[^\]]*\]/g, ""],
  [/ 2>\/dev\/null/g, ""],
  [/\bNAMESPACE\b/g, "ingress-nginx"],
  [/\bNAME\b/g, "ingress-nginx-controller"],
  [/\bGROUP\b/g, "operators"],
  [/sha256:\.\.\./g, `sha256:${"0".repeat(64)}`],
  [/^(helm upgrade(?: --install)? switchback) \S+/, `$1 ${CHART} --dry-run=server -n ${NAMESPACE}`],
];

interface Command {
  readonly page: string;
  readonly text: string;
}

const commands: Command[] = PAGES.flatMap((page) => {
  // A command continues on the next line after a backslash, and after a pipe.
  const text = readFileSync(join(ROOT, page), "utf8")
    .replaceAll(/^```[\s\S]*?^```$/gm, "")
    .replaceAll(/\\\n\s+/g, "")
    .replaceAll(/\|\n {4}\s+/g, "| ");
  const lines = text.split("\n").flatMap((line) => /^ {4}(?:\$ )?(\S.*)$/.exec(line)?.[1] ?? []);
  return lines.filter((line) => PROGRAMS.test(line)).map((line) => ({ page, text: line.replace(/ {2,}#.*/, "") }));
});
const elsewhere = ({ text }: Command) => ELSEWHERE.find(([pattern]) => pattern.test(text));
const here = commands.filter((command) => elsewhere(command) === undefined);

/** The cluster of a user who comes from another tool, and has opted cert-manager in. */
const BEFORE = `
${["cert-manager", "shop", "hairpin-proxy", "hairpin-proxy-gen2"].map((name) => namespaceYaml(name)).join("")}
${workload("Deployment", "hairpin-proxy-controller", "hairpin-proxy")}
${workload("Deployment", "controller", "hairpin-proxy-gen2")}
${ingress("web", ["web.example.com"])}
apiVersion: v1
kind: Pod
metadata: { namespace: cert-manager, name: cert-manager, labels: { app.kubernetes.io/component: controller } }
spec: { containers: [{ name: main, image: none }] }
---
apiVersion: v1
kind: Node
metadata: { name: node-1 }
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: dnsendpoints.externaldns.k8s.io
  annotations: { api-approved.kubernetes.io: "unapproved: only its name is needed" }
spec:
  group: externaldns.k8s.io
  scope: Namespaced
  names: { kind: DNSEndpoint, plural: dnsendpoints }
  versions:
    - name: v1alpha1
      served: true
      storage: true
      schema: { openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true } }
`;
/** The cluster's DNS, as other tools leave it. */
const LEFT = `
apiVersion: v1
kind: ConfigMap
metadata: { namespace: kube-system, name: coredns }
data:
  Corefile: |
    .:53 {
        rewrite name a.example.com hairpin-proxy.hairpin-proxy.svc.cluster.local # Added by hairpin-proxy
        errors
    }
---
apiVersion: v1
kind: ConfigMap
metadata: { namespace: kube-system, name: coredns-custom }
data: { ouroboros.override: "# of ouroboros", mine.server: "# mine" }
`;
const DEPLOYMENT = `
apiVersion: apps/v1
kind: Deployment
metadata: { namespace: shop, name: web }
spec:
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: main, image: none }] }
`;

let system: System;
let folder: string;
let proxyPod: string;

/** Creates the folder in which the commands run, with the programs and the files that they name. */
async function makeFolder(): Promise<void> {
  folder = mkdtempSync(join(tmpdir(), "switchback-docs-commands-"));
  for (const name of ["bin", "deploy", "chart/templates"]) mkdirSync(join(folder, name), { recursive: true });
  for (const program of ["kubectl", "helm"] as const) symlinkSync(await binary(program), join(folder, "bin", program));
  const script = `#!/bin/sh\nexec '${process.execPath}' '${SWITCHBACK}' "$@"\n`;
  writeFileSync(join(folder, "bin", "switchback"), script, { mode: 0o755 });
  for (const file of ["deployment.yaml", "deploy/web.yaml", "chart/templates/web.yaml"])
    writeFileSync(join(folder, file), DEPLOYMENT);
  writeFileSync(join(folder, "chart", "Chart.yaml"), "{ apiVersion: v2, name: shop, version: 1.0.0 }\n");
  writeFileSync(join(folder, "hosts.txt"), "198.51.100.9 shop.example.com\n");
  cpSync(join(ROOT, "manifests", "install.yaml"), join(folder, "manifests", "install.yaml"));
}

before(async () => {
  await makeFolder();
  system = await startSystem({ before: `${BEFORE}---${LEFT}`, values: { agent: { enabled: true } } });
  await system.showController();
  const pods = await system.kubectl("-n", NAMESPACE, "get", "pods", "-o", "name");
  proxyPod = /pod\/(switchback-proxy-\S+)/.exec(pods)?.[1] ?? assert.fail(pods);
  await system.cluster.runPod(`${NAMESPACE}/${proxyPod}`, "203.0.113.251", {
    8082: (await system.leader()).healthPort,
  });
});
after(async () => {
  await system?.stop();
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** Runs a command. The exit code is that of its first program: a `grep` that finds nothing is not a failure. */
async function type(command: string): Promise<ToolResult> {
  const script = `cd '${folder}'\n${command}\nexit "\${PIPESTATUS[0]}"`;
  const path = [join(folder, "bin"), process.env.PATH].join(delimiter);
  return await runTool("bash", ["-c", script], {
    PATH: path,
    HOME: folder,
    KUBECONFIG: system.cluster.adminKubeconfig,
  });
}

/** Output of a command that did not do what the page says. */
const REFUSED = /^(?:error|Error|switchback: unknown|jq: (?:compile )?error)|command not found|syntax error/m;

describe("the commands of the pages", () => {
  it("are run here or are listed with what runs them, and every listed pattern is on a page", () => {
    assert.ok(here.length > 50, String(here.length));
    assert.deepEqual(
      ELSEWHERE.filter(([pattern]) => !commands.some(({ text }) => pattern.test(text))).map(([pattern]) => pattern),
      [],
    );
  });

  for (const { page, text } of here) {
    it(`${page}: ${text}`, async () => {
      const command = SUBSTITUTES.reduce((line, [pattern, by]) => line.replace(pattern, by), text);
      const { code, stdout, stderr } = await type(command.replace(/\bPOD\b/, proxyPod));
      // The doctor and the status exit with 1 if something is wrong, as it is here, where no pod runs.
      const isFinding = code === 1 && /^switchback (?:doctor|status|uninstall --check)/.test(command);
      assert.ok(code === 0 || isFinding, `${command}: ${code}\n${stdout}\n${stderr}`);
      assert.doesNotMatch(stderr, REFUSED, command);
    });
  }

  it("which the doctor prints for a file that lacks kinds: its own pipeline adds them", async () => {
    await type("kubectl get namespaces,services -A -o yaml > cluster.yaml");
    const cure = async () => {
      const { stdout } = await type("switchback doctor --from cluster.yaml -o json");
      const { findings } = JSON.parse(stdout) as { findings: { status: string; code: string; cures: string[] }[] };
      return findings.find(({ code, status }) => code === "dump-incomplete" && status === "unknown")?.cures[0];
    };
    const ran: string[] = [];
    // The configuration, which the first pipeline adds, names what the second one asks for.
    for (let pipeline = await cure(); pipeline !== undefined; pipeline = await cure()) {
      ran.push(pipeline);
      assert.ok(ran.length < 3, ran.join("\n"));
      const { code, stderr } = await type(pipeline);
      assert.equal(code, 0, stderr);
    }
    assert.match(ran[0] ?? "", /^echo \/\S+ .*\| xargs -n 1 kubectl get --raw >> cluster\.yaml/);
  });
});
