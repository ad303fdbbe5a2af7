import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { type FakeApi, fakeApi, noConnections } from "#test/fakes/kube-api.ts";
import { type MemoryCall, MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { doctor } from "./doctor.ts";

const PODS = "/api/v1/namespaces/probes/pods";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/ours/deployments";
const RESULT = { dials: [], lookups: [] };
const SIGNALS = ["SIGINT", "SIGTERM"] as const;

const files = useFiles();
let api: FakeApi;
let server: MemoryServer;
beforeEach(async () => {
  server = new MemoryServer();
  api = await fakeApi(server.respond);
});
afterEach(() => api.close());

async function start(flags: Partial<Parameters<typeof doctor>[0]> = {}) {
  const { context, written } = captured();
  const kubeconfig = await files.kubeconfig(api.url);
  const all = { namespace: "ours", probeNamespace: "probes", output: "text", kubeconfig, ...flags } as const;
  return { written, done: doctor(all, context) };
}

async function run(flags: Partial<Parameters<typeof doctor>[0]> = {}) {
  const { written, done } = await start(flags);
  return { code: await done, ...written };
}

async function findings(flags: Partial<Parameters<typeof doctor>[0]> = {}) {
  const { stdout } = await run({ output: "json", ...flags });
  const report: { findings: { code: string; subject: string; evidence: string }[] } = JSON.parse(stdout);
  return report.findings;
}

function addLoadBalancer(): void {
  server.add("/api/v1/namespaces/edge/services", "ingress-nginx-controller", {
    metadata: { labels: { "app.kubernetes.io/name": "ingress-nginx" } },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.1"], ports: [{ name: "https", port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
  });
}

function addProxy(image: string, name = "switchback-proxy", imagePullPolicy = "Always"): void {
  const containers = [{ name: "proxy", image, imagePullPolicy }];
  server.add(DEPLOYMENTS, name, { spec: { replicas: 1, template: { spec: { containers } } } });
}

/** Makes the probe's pod end at once with `result`, unless `poll` returns another answer. */
function runPods(poll: () => object = () => ({ status: { phase: "Succeeded" } }), result: object = RESULT): void {
  server.onCall = ({ method, path }) => {
    if (!path.startsWith(`${PODS}/`)) return undefined;
    if (method === "DELETE") return { status: 200, body: {} };
    return { status: 200, body: path.endsWith("/log") ? result : poll() };
  };
}

interface ProbePod {
  readonly spec: { readonly containers: readonly { readonly image: string; readonly imagePullPolicy: string }[] };
}

const created = () => server.callsOf("POST", PODS).filter(({ query }) => !query.has("dryRun"));
const containersOf = (calls: readonly MemoryCall[]) =>
  calls.flatMap(({ body }) => (body as ProbePod).spec.containers.map((each) => [each.image, each.imagePullPolicy]));

describe("doctor", () => {
  test("prints the findings as text, and its progress on standard error", async () => {
    const { code, stdout, stderr } = await run();
    assert.equal(stderr, `diagnosing ${api.url.href}\n`);
    assert.match(stdout, /\n\d+ broken, \d+ warning, \d+ unknown, \d+ ok/);
    assert.equal(code, 0);
    assert.ok(api.calls.every(({ headers }) => /^switchback-doctor\b/.test(headers["user-agent"] ?? "")));
  });

  test("prints the same findings as indented JSON", async () => {
    const text = await run();
    const { stdout } = await run({ output: "json" });
    assert.match(stdout, /^\{\n {2}"status": "[a-z]+",\n/);
    assert.ok(stdout.endsWith("\n}\n"));
    const { findings } = JSON.parse(stdout);
    assert.ok(findings.length > 0);
    for (const { subject, code } of findings) assert.ok(text.stdout.includes(`${subject}: ${code}\n`), code);
  });

  test("reads the install in one namespace, and creates a pod in the other one", async () => {
    await run();
    const paths = new Set(server.calls.map(({ path }) => path));
    assert.ok(paths.has(DEPLOYMENTS));
    assert.deepEqual(
      server.writes.filter((each) => !each.includes("/apis/")),
      [`POST ${PODS}`],
    );
    assert.deepEqual(created(), [], "the pod is a dry run");
  });

  test("with --strict exits with 1 if something is unknown", async () => {
    const { code, stdout } = await run({ strict: true });
    assert.match(stdout, /^unknown /m);
    assert.doesNotMatch(stdout, /^BROKEN /m);
    assert.equal(code, 1);
  });

  test("exits with 1 if anything is broken", async () => {
    addProxy("switchback:1");
    const { code, stdout } = await run();
    assert.match(stdout, /^BROKEN /m);
    assert.equal(code, 1);
  });

  test("names the callers in a log of the ingress controller; a missing log is an error", async () => {
    addLoadBalancer();
    server.add("/api/v1/namespaces/shop/pods", "api", { status: { podIPs: [{ ip: "203.0.113.9" }] } });
    const ingressLog = await files.file("ingress.log", "203.0.113.9 - - GET / 200\n");
    const [need] = await findings({ ingressLog });
    assert.match(need?.evidence ?? "", /callers in the cluster, from the log: shop\/Pod\/api \(1\)$/);
    await assert.rejects((await start({ ingressLog: `${ingressLog}.not` })).done, { code: "input-invalid" });
  });

  test("closes its connections, even after a failure", async () => {
    await run();
    server.onCall = () => refusal(401, "Unauthorized");
    await assert.rejects((await start()).done, { code: "kube-status" });
    await noConnections(api);
  });
});

describe("doctor --probe", () => {
  const probed = async (flags = {}) => {
    const found = await findings({ probe: true, ...flags });
    return found.map(({ code }) => code).filter((code) => /^(probe|nothing-to-probe)/.test(code));
  };

  test("without the flag, nothing is created", async () => {
    addLoadBalancer();
    addProxy("switchback:1");
    await run();
    assert.deepEqual(created(), []);
  });

  test("needs an image: from an installed proxy, or from --image", async () => {
    addLoadBalancer();
    addProxy("switchback:1", "switchback-controller");
    addProxy("", "switchback-proxy");
    assert.ok((await probed()).includes("probe-without-image"));
    assert.deepEqual(created(), []);
  });

  test("takes the image of the only Deployment of the profile small", async () => {
    addLoadBalancer();
    addProxy("switchback:1", "switchback-all");
    assert.ok(!(await probed()).includes("probe-without-image"));
  });

  test("needs an image when Deployments cannot be listed", async () => {
    addLoadBalancer();
    server.onCall = ({ path }) => (path === DEPLOYMENTS ? refusal(403, "Forbidden") : undefined);
    assert.ok((await probed()).includes("probe-without-image"));
  });

  test("needs a load balancer", async () => {
    assert.ok((await probed({ image: "own:2" })).includes("nothing-to-probe"));
    assert.deepEqual(created(), []);
  });

  test("without the right to list Services, reports that and not that there is no load balancer", async () => {
    addLoadBalancer();
    server.onCall = ({ path }) => (path === "/api/v1/services" ? refusal(403, "Forbidden") : undefined);
    assert.deepEqual(await probed({ image: "own:2" }), []);
    assert.ok(
      (await findings({ probe: true, image: "own:2" })).some(
        ({ code, subject }) => code === "right-missing" && subject === "probe",
      ),
    );
    assert.deepEqual(created(), []);
  });

  test("runs a pod with the proxy's image and pull policy in its namespace, and removes it", async () => {
    addLoadBalancer();
    addProxy("other:1", "switchback-controller");
    addProxy("switchback:1");
    runPods();
    const before = SIGNALS.map((signal) => process.listenerCount(signal));
    const { stderr } = await run({ probe: true });
    assert.deepEqual(containersOf(created()), [["switchback:1", "Always"]]);
    assert.match(
      stderr,
      /^diagnosing .*\nprobe: creating pod probes\/switchback-doctor-\S+ \(image switchback:1\)\nprobe: reading the result\nprobe: pod removed\n$/,
    );
    assert.equal(server.writes.at(-1)?.replace(/-[0-9a-f]+$/, ""), `DELETE ${PODS}/switchback-doctor`);
    assert.deepEqual(
      SIGNALS.map((signal) => process.listenerCount(signal)),
      before,
    );
  });

  test("reports the result of the pod", async () => {
    addLoadBalancer();
    runPods(undefined, {});
    assert.deepEqual([...new Set(await probed({ image: "own:2" }))], ["probe-unreadable"]);
    runPods();
    assert.deepEqual(await probed({ image: "own:2" }), []);
  });

  test("--image takes precedence, and is pulled only if the node does not have it", async () => {
    addLoadBalancer();
    addProxy("switchback:1");
    runPods();
    await run({ probe: true, image: "own:2" });
    assert.deepEqual(containersOf(created()), [["own:2", "IfNotPresent"]]);
  });

  for (const signal of SIGNALS) {
    test(`on ${signal}, removes the pod and fails`, async () => {
      addLoadBalancer();
      const own = () => {};
      // Without this listener, the signal would end the process if the doctor had none.
      process.on(signal, own);
      const before = SIGNALS.map((each) => process.listenerCount(each));
      runPods(() => {
        process.emit(signal, signal);
        return { status: { phase: "Pending" } };
      });
      try {
        const { done, written } = await start({ probe: true, image: "own:2" });
        await assert.rejects(done, { message: `${signal}: the probe was stopped` });
        assert.deepEqual([written.stdout, created().length], ["", 1]);
        assert.match(server.writes.at(-1) ?? "", /^DELETE /);
        assert.deepEqual(
          SIGNALS.map((each) => process.listenerCount(each)),
          before,
        );
      } finally {
        process.off(signal, own);
      }
    });
  }
});
