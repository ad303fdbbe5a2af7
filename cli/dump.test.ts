import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, test } from "node:test";
import type { FullStatus } from "#controller/status.ts";
import type { Reason } from "#hostmap/types.ts";
import type { HeaderAnswer } from "#lib/documents/header-answers.ts";
import { captured, runHere, useFiles } from "#test/fakes/cli.ts";
import { LISTED } from "#test/fakes/cluster-table.ts";
import { fullStatus, WORKLOAD } from "#test/fakes/full-status.ts";
import { installed } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi } from "#test/fakes/kube-api.ts";
import { type MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { mapObjects, OBJECTS, targetsObject } from "#test/published.ts";
import { dump } from "./dump.ts";

const BALANCER = { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } };
const SERVICES = { name: "services", kind: "Service", namespaced: true, verbs: ["list", "watch"] };
/** What a file does not decide about a name. */
const UNDECIDED =
  "1 name would be mapped if the cluster's DNS leads to the load balancers, and if the ingress controllers " +
  "take a PROXY header";
const base64 = (text: string) => Buffer.from(text).toString("base64");

const files = useFiles();
let server: MemoryServer;
let api: FakeApi;
let kubeconfig: string;
beforeEach(async () => {
  server = installed();
  server.add("/api/v1/namespaces/edge/services", "nginx", {
    kind: "Service",
    metadata: { labels: { "app.kubernetes.io/name": "ingress-nginx" } },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.1"], ports: [{ port: 80 }, { name: "https", port: 443 }] },
    status: BALANCER,
  });
  server.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "web", {
    metadata: { annotations: { "nginx.ingress.kubernetes.io/server-snippet": "set $token SECRET;" } },
    spec: { ingressClassName: "nginx", rules: [{ host: "shop.example.com" }] },
    status: BALANCER,
  });
  // A watch refuses objects without a resourceVersion.
  for (const [path, object] of server.objects)
    server.objects.set(path, { ...object, metadata: Object.assign({ resourceVersion: "1" }, object.metadata) });
  server.onCall = ({ path }) => discovery(path);
  api = await fakeApi(server.respond);
  kubeconfig = await files.kubeconfig(api.url);
});
afterEach(() => api.close());

/** The API server's discovery: only the built-in kinds exist. */
function discovery(path: string) {
  if (path === "/api/v1") return { status: 200, body: { kind: "APIResourceList", resources: [SERVICES] } };
  return /^\/apis\/[^/]+(?:\/[^/]+)?$/.test(path) ? refusal(404, "NotFound") : undefined;
}

async function dumped(redact = false): Promise<string> {
  const { context, written } = captured();
  await dump("0.0.0", { namespace: "ours", probeNamespace: "probes", kubeconfig, ...(redact && { redact }) }, context);
  return written.stdout;
}

async function findings(args: readonly string[]): Promise<string> {
  const { stdout, stderr } = await runHere(["doctor", ...args, "-o", "json"], {});
  assert.match(stdout, /"findings"/, stderr);
  return stdout;
}

const ofCluster = () => findings(["-n", "ours", "--probe-namespace", "probes", "--kubeconfig", kubeconfig]);
const ofDump = async (redact?: boolean) => findings(["--from", await files.file("dump.yaml", await dumped(redact))]);

/** Checks that doctor has the same findings in a dump, and the same codes in a redacted one. Returns the findings. */
async function foundInDumps(): Promise<string> {
  const found = await ofCluster();
  assert.equal((await ofDump()).replaceAll("on the cluster itself: ", ""), found);
  assert.deepEqual(codesOf(await ofDump(true)), codesOf(found));
  return found;
}

/** `check status code` of each finding, sorted. */
function codesOf(found: string): string[] {
  const { findings } = JSON.parse(found) as { findings: readonly Record<"check" | "status" | "code", string>[] };
  return findings.map(({ check, status, code }) => `${check} ${status} ${code}`).sort();
}

describe("doctor finds the same in a dump, and the same codes in a redacted one", () => {
  test("of an installed cluster with faults", async () => {
    const webhooks = [{ name: "pod.switchback.dev" }, { name: "initech" }];
    const metadata = { resourceVersion: "1" };
    server.add("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "switchback-webhook", {
      ...{ kind: "MutatingWebhookConfiguration", metadata, webhooks },
    });
    const port = { port: 443, listenPort: 15_000, upstreamPort: 443, protocol: "v1" as const };
    const target = { name: "initech", upstream: "nginx.edge.svc", ports: [port], clusterIPs: ["198.51.100.9"] };
    server.add("/api/v1/namespaces/ours/configmaps", OBJECTS.targets, { ...targetsObject([target]), metadata });
    server.add("/api/v1/namespaces/kube-system/configmaps", "coredns", {
      ...{ kind: "ConfigMap", metadata },
      data: { Corefile: ".:53 {\n  rewrite name a.initech.com b\n}" },
    });
    const status = fullStatus({ warnings: [{ code: "many-names", text: "initech" }] }, { workloads: [WORKLOAD] });
    server.onCall = ({ path, method }) => {
      if (path.endsWith("/proxy/status")) return { status: 200, body: status };
      if (method !== "POST") return discovery(path);
      const refused = { kind: "Status", message: 'failed calling webhook "pod.switchback.dev": initech' };
      return { status: 500, body: refused };
    };
    const found = await foundInDumps();
    for (const code of ["webhook-missing", "many-names", "workload-stuck", "webhook-blocks"])
      assert.match(found, new RegExp(`"${code}"`));
  });

  test("of a published map", async () => {
    for (const { metadata, ...rest } of mapObjects({ "shop.example.com": ["198.51.100.9"] }, { zipped: true })) {
      const fields = { ...rest, metadata: { ...metadata, resourceVersion: "1" } };
      server.add("/api/v1/namespaces/ours/configmaps", metadata.name, fields);
    }
    await foundInDumps();
  });

  for (const [what, paths, answer, found] of [
    ["that refuses many requests", /services|secrets|issuers|pods/, refusal(403, "Forbidden"), /missing permission/],
    ["where requests fail", /ingresses|gateways|nodes/, refusal(500, "InternalError"), /not-read/],
  ] as const) {
    test(`of a cluster ${what}`, async () => {
      server.onCall = ({ path }) => (paths.test(path) ? answer : discovery(path));
      assert.match(await foundInDumps(), found);
    });
  }
});

test("a dump has no Secret, and no field or annotation that may contain one", async () => {
  const metadata = { resourceVersion: "1", labels: { token: "SECRET" } };
  server.add("/apis/networking.k8s.io/v1/namespaces/shop/ingresses", "admin", {
    metadata: {
      ...metadata,
      annotations: {
        "nginx.ingress.kubernetes.io/custom-request-headers": "Authorization: Basic SECRET",
        "service.beta.kubernetes.io/aws-load-balancer-access-log-s3-bucket-name": "SECRET",
        "nginx.ingress.kubernetes.io/server-alias": "alias.example.com",
      },
    },
    spec: { rules: [{ host: "admin.example.com", http: { paths: [{ path: "/SECRET" }] } }] },
  });
  const containers = [{ name: "a", image: "a:1", env: [{ name: "PASSWORD", value: "SECRET" }] }];
  server.add("/apis/apps/v1/namespaces/ours/deployments", "web", {
    kind: "Deployment",
    spec: { template: { spec: { containers } } },
  });
  server.add("/apis/cert-manager.io/v1/clusterissuers", "le", {
    kind: "ClusterIssuer",
    spec: { acme: { email: "SECRET", solvers: [{ dns01: { token: "SECRET" } }, { http01: { ingress: {} } }] } },
  });
  server.add("/api/v1/namespaces/ours/secrets", OBJECTS.serving, {
    data: { "tls.crt": base64("PUBLIC"), "tls.key": base64("SECRET") },
  });
  server.add("/api/v1/namespaces/ours/secrets", OBJECTS.statusKey, { data: { key: base64("SECRET".repeat(8)) } });
  const text = await dumped();
  assert.doesNotMatch(text, /SECRET|PASSWORD|"kind":"Secret"/);
  for (const secret of ["PUBLIC", "SECRET", "SECRET".repeat(8)]) assert.ok(!text.includes(base64(secret)));
  assert.match(text, /"a:1"/);
  assert.match(text, /"nginx.ingress.kubernetes.io\/server-alias":"alias.example.com"/);
  assert.match(text, /"service.beta.kubernetes.io\/aws-load-balancer-":""/, "the doctor recognizes the provider");
  assert.deepEqual(
    server.writes.filter((each) => !each.endsWith("/pods")),
    [],
  );
});

describe("status --from", () => {
  const statusOf = async (text: string, ...args: string[]) => {
    const file = await files.file("status.yaml", text);
    const { code, stdout, stderr } = await runHere(["status", "--from", file, "-o", "json", ...args], {});
    assert.deepEqual([code, stderr], [0, ""]);
    return JSON.parse(stdout);
  };
  const HEAD = "---\napiVersion: dump.switchback.dev/v1\nkind: Dump\n";
  const codesOf = (names: FullStatus["names"]) => names.map(({ target, reason }) => reason?.code ?? typeof target);

  test("maps the names that a controller would map in the dumped cluster", async () => {
    const { names, warnings, sources } = await statusOf(await dumped());
    assert.deepEqual(
      names.map(({ name, target, reason }: Record<string, unknown>) => [name, target, reason]),
      [["shop.example.com", "edge-nginx-16b7fc20a6aa", undefined]],
    );
    assert.deepEqual(
      warnings.map(({ code, text }: Reason) => [code, text]),
      [
        ["not-installed", "Switchback is not installed there; these are the names that it may map"],
        ["names-undecided", UNDECIDED],
      ],
    );
    assert.ok(sources.every(({ synced }: { synced: boolean }) => synced));
  });

  for (const redact of [false, true]) {
    test(`uses what the ingress controllers answered${redact ? ", redacted too" : ""}`, async () => {
      const asked = [80, 443].map((port) => ({
        ...{ target: "edge-nginx-16b7fc20a6aa", port, speaks: port === 443 ? ("tls" as const) : ("http" as const) },
        ...{ upstream: "nginx.edge.svc", upstreamPort: port, name: "shop.example.com", namespace: "edge" },
      }));
      const codes = async (answer: HeaderAnswer) => {
        const questions = asked.map((each) => ({ ...each, answer }));
        const targets = { ...targetsObject([], questions), metadata: { resourceVersion: "1" } };
        server.add("/api/v1/namespaces/ours/configmaps", OBJECTS.targets, targets);
        const text = await dumped(redact);
        assert.equal(text.includes("edge-nginx"), !redact);
        return codesOf((await statusOf(text)).names);
      };
      assert.deepEqual(await codes("demands-v2"), ["string"]);
      assert.deepEqual(await codes("refuses-header"), ["header-not-expected"]);
      assert.deepEqual(await codes("unknown"), ["header-unknown"]);
    });
  }

  test("uses the DNS answers that the controller has seen, also in a redacted dump", async () => {
    const codes = async (redact: boolean, ...resolved: string[]) => {
      const from = { kind: "Ingress", namespace: "shop", name: "web" };
      const names = [{ name: "shop.example.com", from, addresses: [], resolved }];
      const status = { leader: true, identity: "c", synced: true, sources: [], targets: [], names, warnings: [] };
      server.onCall = ({ path }) => (path.endsWith("/proxy/status") ? { status: 200, body: status } : discovery(path));
      return codesOf((await statusOf(await dumped(redact))).names);
    };
    for (const redact of [false, true]) {
      assert.deepEqual(await codes(redact, "203.0.113.7"), ["string"]);
      assert.deepEqual(await codes(redact, "192.0.2.1"), ["dns-elsewhere"]);
      assert.deepEqual(await codes(redact), ["string"], "no such name: it is mapped");
    }
    assert.doesNotMatch(await dumped(true), /shop\.example|192\.0\.2\.1/);
  });

  test("reports what is missing if the author could not read everything", async () => {
    const refused = { apiVersion: "dump.switchback.dev/v1", kind: "Answer", method: "GET", status: 403 };
    const answer = { ...refused, path: "/apis/networking.k8s.io/v1/ingresses", message: "GET ingresses: 403" };
    const { names, warnings } = await statusOf(`${HEAD}---\n${JSON.stringify(answer)}\n`);
    assert.deepEqual(names, []);
    assert.match(warnings[1].text, /ingresses is not known: .*403/);
  });

  test("says of a file of kubectl what would be mapped, and which kinds it lacks", async () => {
    const items = [
      ...(await dumped()).split("---\n").filter((line) => /"kind":"(?:Ingress|Service)"/.test(line)),
      JSON.stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "switchback-system" } }),
    ];
    const { names, warnings } = await statusOf(items.join("---\n"));
    assert.deepEqual(codesOf(names), ["string"]);
    assert.deepEqual(
      warnings.map(({ code }: Reason) => code),
      ["dump-incomplete", "names-undecided"],
    );
    assert.match(
      warnings[0].text,
      /has no configmaps, .*; echo \S+\/switchback-system\/configmaps .* \| xargs -n 1 kubectl get --raw/,
    );
  });

  test("says first that Switchback is not running there", async () => {
    const items = ["controller", "proxy", "webhook"].map((name) => {
      const metadata = { namespace: "switchback-system", name: `switchback-${name}` };
      return {
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata,
        status: { readyReplicas: name === "proxy" ? 0 : 1 },
      };
    });
    const { warnings } = await statusOf(JSON.stringify({ apiVersion: "v1", kind: "List", items }));
    assert.equal(warnings[0].code, "deployment-not-ready");
    assert.match(warnings[0].text, /^Switchback is not running there: .*switchback-proxy: 0 of 1 pods are ready: /);
  });

  test("reports that the addresses of a status belong to nodes", async () => {
    const file = new URL("../test/sample-clusters/ingress-nginx-node-port.yaml", import.meta.url);
    const [, ...objects] = readFileSync(file, "utf8").split("---\n");
    const codeOf = async (kept: readonly string[]) => {
      const listed = LISTED.map((answer) => JSON.stringify(answer));
      return codesOf((await statusOf([HEAD, ...listed, ...kept].join("\n---\n"))).names);
    };
    assert.deepEqual(await codeOf(objects), ["node-address"]);
    const withoutNodes = objects.filter((object) => !object.includes("kind: Node"));
    assert.notDeepEqual(await codeOf(withoutNodes), ["node-address"]);
  });

  test("refuses a configuration that this version cannot read", async () => {
    const metadata = { namespace: "switchback-system", name: "switchback-config" };
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { "config.yaml": "targets: 5" } };
    const file = await files.file("config.yaml", `${HEAD}---\n${JSON.stringify(config)}\n`);
    const { code, stdout, stderr } = await runHere(["status", "--from", file], {});
    assert.deepEqual([code, stdout], [2, ""]);
    assert.match(stderr, /ConfigMap switchback-config is not valid for this version: targets/);
  });
});
