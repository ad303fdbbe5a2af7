import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";
import { atTerminal, captured, useFiles } from "#test/fakes/cli.ts";
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
    metadata: { resourceVersion: "1", labels: { "app.kubernetes.io/name": "ingress-nginx" } },
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
    assert.match(stdout, /^Pods reach the ingress controllers: this cluster needs no mapping\.\n/);
    assert.equal(code, 0);
    assert.ok(api.calls.every(({ headers }) => /^switchback-doctor\b/.test(headers["user-agent"] ?? "")));
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
    addLoadBalancer();
    assert.equal((await run()).code, 0);
    assert.equal((await run({ strict: true })).code, 1);
  });

  test("exits with 1 if anything is broken", async () => {
    addProxy("switchback:1");
    const { code, stdout } = await run();
    assert.match(stdout, /^Switchback is installed but does not run\.\n/);
    assert.equal(code, 1);
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
    return found.map(({ code }) => code).filter((code) => /^probe/.test(code));
  };

  test("without a terminal, nothing is created, and the command for a probe is printed", async () => {
    addLoadBalancer();
    const { stdout } = await run();
    assert.match(stdout, /^It is not known whether pods reach .*\n(.*\n)*Find out:\n {2}switchback doctor --probe /);
    assert.deepEqual(created(), []);
  });

  for (const [input, pods] of [
    ["n\n", 0],
    ["y\n", 1],
  ] as const) {
    test(`at a terminal, one question names namespace and image; ${input.trim()} starts ${pods} pods`, async (t) => {
      addLoadBalancer();
      runPods();
      const shows = atTerminal(t, input);
      await run();
      assert.equal(created().length, pods);
      assert.ok(shows("one pod in the namespace probes from docker.io/library/node:22-slim for up to 60 s"));
    });
  }

  test("nobody is asked if nothing depends on the answer, or if an option answers", async (t) => {
    const shows = atTerminal(t, "y\n");
    await run();
    assert.deepEqual(created(), []);
    addLoadBalancer();
    runPods();
    await run({ probe: false });
    assert.deepEqual(created(), []);
    await run({ probe: true });
    assert.deepEqual([created().length, shows("[y/N]")], [1, false]);
  });

  test("takes the given image, else that of the proxies or the profile small, else a public one", async () => {
    addLoadBalancer();
    runPods();
    await run({ probe: true });
    addProxy("small:1", "switchback-all");
    await run({ probe: true });
    addProxy("switchback:1");
    await run({ probe: true, image: "own:2" });
    assert.deepEqual(containersOf(created()), [
      ["docker.io/library/node:22-slim", "IfNotPresent"],
      ["small:1", "Always"],
      ["own:2", "IfNotPresent"],
    ]);
  });

  test("without a load balancer, or without the right to list Services, no pod runs", async () => {
    assert.deepEqual(await probed({ image: "own:2" }), []);
    addLoadBalancer();
    server.onCall = ({ path }) => (path === "/api/v1/services" ? refusal(403, "Forbidden") : undefined);
    assert.deepEqual(await probed({ image: "own:2" }), []);
    assert.deepEqual(created(), []);
  });

  test("a pod that is refused or cannot start leaves the other findings, and nothing behind", async () => {
    addLoadBalancer();
    server.onCall = ({ method, path }) =>
      method === "POST" && path === PODS ? refusal(403, "denied by x") : undefined;
    const refused = await run({ probe: true });
    assert.match(refused.stdout, /^It is not known whether pods reach .*\n(.*\n)*Also:\n(.*\n)*.*denied by x/);
    const waiting = { reason: "ErrImagePull", message: "no such image" };
    runPods(() => ({ status: { phase: "Pending", containerStatuses: [{ state: { waiting } }] } }));
    const { stdout } = await run({ probe: true });
    assert.match(stdout, /--probe --image IMAGE .*\n(.*\n)*.*ErrImagePull/);
    assert.match(server.writes.at(-1) ?? "", /^DELETE /);
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
    assert.deepEqual([...new Set(await probed({ image: "own:2" }))], ["probe-failed"]);
    runPods();
    assert.deepEqual(await probed({ image: "own:2" }), []);
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
