import assert from "node:assert/strict";
import { afterEach, describe, it } from "node:test";
import type { FullStatus } from "#controller/status.ts";
import { captured, useFiles } from "#test/fakes/cli.ts";
import { fullStatus, NAME, REFUSED, WORKLOAD } from "#test/fakes/full-status.ts";
import { addDeployment, addHolder, installed } from "#test/fakes/installed.ts";
import { type FakeApi, fakeApi, type Responder } from "#test/fakes/kube-api.ts";
import { MemoryServer } from "#test/fakes/memory-server.ts";
import { run } from "./run.ts";

// Recorded screens of a terminal with 80 columns, also with names as long as Kubernetes allows.

const COLUMNS = 80;

const files = useFiles();
let api: FakeApi | undefined;
afterEach(async () => {
  await api?.close();
  api = undefined;
});

/** Runs a command at a terminal without colour. @returns the screen, standard output first. */
async function screen(respond: Responder, ...args: string[]): Promise<string> {
  api = await fakeApi(respond);
  const { context, written } = captured({ KUBECONFIG: await files.kubeconfig(api.url) }, COLUMNS);
  await run([...args, "-n", "ours"], context);
  return (written.stdout + written.stderr).replaceAll(api.url.href, "https://api.example.com/");
}

/** An API server with an install whose controller answers with this status. */
function controllerSays(full: FullStatus): MemoryServer {
  const server = installed();
  server.onCall = ({ path }) => (path.endsWith("/status") ? { status: 200, body: full } : undefined);
  return server;
}

/**
 * A name with `length` characters: labels of 63 characters, separated by dots, as in a hostname or an object's name.
 */
function long(length: number): string {
  return `${"long-".repeat(12)}abc.`
    .repeat(4)
    .slice(0, length - 1)
    .concat("z");
}

const NAMESPACE = `n${"s".repeat(62)}`;
const REASON = { code: "restart-not-permitted", text: `${NAMESPACE} is not among restart.namespaces: ${long(253)}` };
const LONG_WORKLOAD = { ...WORKLOAD, ...REASON, namespace: NAMESPACE, name: long(253), warnings: [REASON] };
const LONG_NAME = {
  ...REFUSED,
  name: long(253),
  target: long(63),
  from: { kind: "IngressRouteTCP", namespace: NAMESPACE, name: long(253) },
  warning: REASON,
};
const LONG_STATUS = fullStatus(
  { names: [NAME, LONG_NAME], warnings: [REASON], identity: long(253) },
  { workloads: [LONG_WORKLOAD], underWay: `${NAMESPACE}/Deployment/${long(253)}` },
);

function longLeftovers(): MemoryServer {
  const server = installed(`restart: { namespaces: [${NAMESPACE}] }`);
  addDeployment(server, NAMESPACE, long(230));
  addHolder(server, NAMESPACE, long(253));
  for (let index = 0; index < 8; index += 1)
    addHolder(server, "shop", `${long(200)}-${index}`, ["ReplicaSet", "web-5d4f6"]);
  return server;
}

function loadBalancer(name: string, namespace: string): MemoryServer {
  const server = new MemoryServer();
  server.add(`/api/v1/namespaces/${namespace}/services`, name, {
    metadata: { resourceVersion: "1", labels: { "app.kubernetes.io/name": "ingress-nginx" } },
    spec: { type: "LoadBalancer", clusterIPs: ["198.51.100.1"], ports: [{ name: "https", port: 443 }] },
    status: { loadBalancer: { ingress: [{ ip: "203.0.113.7" }] } },
  });
  return server;
}

const SCREENS = {
  status: `map abc, from controller-0

Names: 2, 1 refused
  NAME           TARGET  FROM
  -------------  ------  ----------------
  a.example.com  -       Ingress shop/web
      no-target: no class \\u001b[31m
  b.example.com  edge    Ingress shop/web

Opted-in workloads: 2, 1 stuck
  WORKLOAD                                         PODS  STATE  ON CHANGE
  -----------------------------------------------  ----  -----  ---------
  cert-manager/Deployment/cert-manager-cainjector  1/2   stuck  restart
      restart-not-permitted: not listed
      1 not injected
  shop/Deployment/web                              1/2   stale  restart
      its-turn: one workload at a time; 2 before it, of which the first began a
        moment ago and the second waits

restarting now: none; waiting: 3
`,
  more: `map abc, from controller-0

Names: 10000
  NAME                                                  TARGET  FROM
  ----------------------------------------------------  ------  ----------------
  n0.long-long-long-long-lo...ong-abc.long-long-long-z  edge    Ingress shop/web
  n1087.long-long-long-long...ong-abc.long-long-long-z  edge    Ingress shop/web
not shown: 9900 names; see --all, --in, --name, --refused and --stuck
some values are shortened (...) to fit 80 columns; -o wide shows them whole
`,
  doctor: `Pods may be cut off from Service ingress-nginx/ingress-nginx-controller: they
  bypass the load balancer.
  Service ingress-nginx/ingress-nginx-controller: pods bypass the load balancer
    of 203.0.113.7 (status without ipMode Proxy): that cuts them off if it
    demands a PROXY header
Find out:
  switchback doctor --probe   # one pod in the namespace default for up to 60 s
diagnosing https://api.example.com/
`,
  restart: `Deployment shop/web: 1 of 2 pods stale
Deployment shop/web was not restarted: spec.paused: its rollout is paused
`,
  uninstall: `Addresses that the uninstall frees: 198.51.100.9 (switchback-nginx)
1. The webhook configuration switchback-webhook is deleted: new pods are no
  longer injected.
2. These are restarted:
     shop/Deployment/web (web-old)
   These hold addresses of Switchback, and you have to recreate them:
     other/Pod/bare: nothing recreates it: delete it
3. The agents, if any, remove their names from the hosts files of running pods.
4. Controller, webhook and proxy, the front Services, the map, the certificates
  and the Lease are deleted.
Left: the namespace ours.
switchback: 2 pods hold addresses of Switchback, and would connect to the next
  Service that gets one
`,
};

describe("on a terminal of 80 columns", () => {
  it("status", async () => {
    const waiting = {
      ...WORKLOAD,
      namespace: "shop",
      name: "web",
      standing: "waiting",
      code: "its-turn",
      notInjected: 0,
    } as const;
    const text = "one workload at a time; 2 before it, of which the first began a moment ago and the second waits";
    const full = fullStatus(
      {},
      {
        workloads: [
          { ...waiting, text },
          { ...WORKLOAD, name: "cert-manager-cainjector" },
        ],
      },
    );
    assert.equal(await screen(controllerSays(full).respond, "status"), SCREENS.status);
  });

  it("status with more rows than it shows", async () => {
    const names = Array.from({ length: 10_000 }, (_each, index) => ({ ...NAME, name: `n${index}.${long(80)}` }));
    const lines = (await screen(controllerSays(fullStatus({ names })).respond, "status", "--name", "*")).split("\n");
    assert.equal(lines.length, 108);
    assert.equal([...lines.slice(0, 6), ...lines.slice(-4)].join("\n"), SCREENS.more);
  });

  it("doctor", async () => {
    const server = loadBalancer("ingress-nginx-controller", "ingress-nginx");
    assert.equal(await screen(server.respond, "doctor"), SCREENS.doctor);
  });

  it("restart", async () => {
    const server = controllerSays(fullStatus({}, { workloads: [{ ...WORKLOAD, namespace: "shop", name: "web" }] }));
    addDeployment(server, "shop", "web", { paused: true });
    assert.equal(await screen(server.respond, "restart", "shop", "--yes"), SCREENS.restart);
  });

  it("uninstall --check", async () => {
    const server = installed();
    addDeployment(server, "shop", "web");
    addHolder(server, "other", "bare");
    assert.equal(await screen(server.respond, "uninstall", "--check"), SCREENS.uninstall);
  });
});

describe("no line is longer than 80 columns, even with the longest names:", () => {
  for (const [args, server] of [
    [["status"], controllerSays(LONG_STATUS)],
    [["status", "--refused"], controllerSays(LONG_STATUS)],
    [["doctor"], loadBalancer(long(63).replaceAll(".", "-"), NAMESPACE)],
    [["restart", `${NAMESPACE}/deployment/${long(253)}`, "--yes"], controllerSays(LONG_STATUS)],
    [["restart", NAMESPACE, "--yes"], controllerSays(LONG_STATUS)],
    [["uninstall", "--check"], longLeftovers()],
  ] as const) {
    it(args.map((arg) => arg.slice(0, 20)).join(" "), async () => {
      const lines = (await screen(server.respond, ...args)).split("\n");
      assert.deepEqual(
        lines.filter((line) => line.length > COLUMNS),
        [],
      );
      assert.ok(
        lines.some((line) => line.length > COLUMNS - 10),
        `the names were not long: ${lines.join("\n")}`,
      );
    });
  }
});
