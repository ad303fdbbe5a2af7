import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { GATEWAY_GROUP } from "#controller/sources/gateway/view.ts";
import { readStatusKey, STATUS_KEY_HEADER } from "#lib/documents/status-page.ts";
import { connect } from "#lib/kube/connect.ts";
import { OBJECTS } from "../published.ts";
import { type AuditEntry, READER } from "./audit.ts";
import { installGatewayApi, installKind, PLURALS, X_LISTENER_SETS } from "./gateway-api.ts";
import { Kubelet } from "./kubelet.ts";
import { ingress, namespaceYaml, workload } from "./objects.ts";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// RBAC is enough (no request of ours is forbidden) and not more than that (every rule is used). The test reads this
// in the API server's audit log of a run in which the components do everything that they do once.

/** Enough for several ConfigMaps of the map, if its format uses several: these come and go. */
const MANY = Array.from({ length: 900 }, (_, index) => `name-${index}.a-long-enough-domain.example.com`);
/** The namespace in which workloads are restarted. */
const RESTARTED = "restarted";
const ACCOUNT = /^system:serviceaccount:[^:]+:(switchback-\w+)$/;

let system: System;
before(async () => {
  system = await startSystem({
    controllers: 2,
    audit: true,
    before: namespaceYaml(RESTARTED, "enabled"),
    values: {
      config: {
        restart: { namespaces: [RESTARTED] },
        controller: { leaseSeconds: 4 },
        policy: { maxNamesPerNamespace: 2 * MANY.length },
        map: { vanishSeconds: 0, guardHoldSeconds: 15 },
        certs: { overlapSeconds: 1 },
        discovery: { keepSeconds: 1 },
        targets: [
          { name: "relayed", upstream: { service: { namespace: "edge", name: "nginx" } }, classes: ["nginx"] },
          {
            name: "direct",
            upstream: { service: { namespace: "edge", name: "router" } },
            classes: ["direct"],
            ports: [{ port: 80, protocol: "none" }],
          },
        ],
      },
    },
  });
  await liveThroughEverything();
});
after(() => system?.stop());

const own = (...args: string[]) => system.kubectl("-n", NAMESPACE, ...args);

/**
 * Normal operation: names come and go, things are deleted, certificates are rotated, the leader changes, a hold ends.
 */
async function liveThroughEverything(): Promise<void> {
  await system.startProxy();
  await system.apply(`${ingress("few", ["a.example.com", "b.example.com"])}${ingress("many", MANY)}`);
  await findAndForget();
  await until("all names", async () => (await system.publishedNames()).isSupersetOf(new Set(MANY)));
  await own("delete", "cm", OBJECTS.map);
  await own("delete", "svc", "switchback-relayed");
  await own("delete", "secret", OBJECTS.ca);
  await system.ready(MANY);
  await until("a new CA", async () => {
    const { certificates } = await (await system.leader()).status();
    const secrets = await own("get", "secret", OBJECTS.ca, "--ignore-not-found", "-o", "jsonpath={.data}");
    return secrets.includes("ca.crt") && !secrets.includes("next.crt") && certificates?.state.code === "steady";
  });
  await own("delete", "secret", OBJECTS.serving);
  await system.end(await system.leader(), "SIGTERM");
  await system.kubectl("delete", "ingress", "many");
  await until("a hold", async () => (await system.map()).hold !== undefined);
  await lookAtStatus();
  await until("few names, once the time of the hold is over", async () =>
    (await system.publishedNames()).isDisjointFrom(new Set(MANY)),
  );
  await inject();
  await system.ready(["a.example.com"]);
  await useGatewayApi();
  await examine();
  await restart();
}

/** Creates one workload of each kind, which is restarted for a new name. */
async function restart(): Promise<void> {
  const kubelet = new Kubelet(system, RESTARTED);
  try {
    await system.showWebhooks();
    const kinds = ["Deployment", "StatefulSet", "DaemonSet"];
    await system.apply(kinds.map((kind) => workload(kind, kind.toLowerCase(), RESTARTED)).join(""));
    for (const kind of kinds) {
      await system.kubectl("-n", RESTARTED, "rollout", "status", `${kind}/${kind.toLowerCase()}`, "--timeout=60s");
    }
    await system.apply(ingress("restarting", ["restarting.example.com"]));
    await until("every workload to be restarted", async () => {
      const used = new Set((await system.audit.entries()).flatMap(rightsOf));
      const patch = (kind: string) =>
        rightOf("switchback-controller", "patch", `apps/${kind.toLowerCase()}s`, "", RESTARTED);
      if (kinds.every((kind) => used.has(patch(kind)))) return true;
      // If the wait fails, the error shows the state of the restarts.
      throw new Error(JSON.stringify((await (await system.leader()).status()).running));
    });
  } finally {
    await kubelet.stop();
  }
}

/** Creates a Gateway whose listener selects namespaces, so that the controller reads namespaces, too. */
async function useGatewayApi(): Promise<void> {
  await installGatewayApi(system);
  await installKind(system, "XListenerSet", X_LISTENER_SETS);
  const allowedRoutes = { namespaces: { from: "Selector", selector: {} } };
  const listeners = [{ name: "http", port: 80, protocol: "HTTP", hostname: "gw.example.com", allowedRoutes }];
  const [apiVersion, metadata] = [`${GATEWAY_GROUP}/v1`, { name: "gw" }];
  await system.apply(
    JSON.stringify({ apiVersion, kind: "Gateway", metadata, spec: { gatewayClassName: "nginx", listeners } }),
  );
  const resources = [...Object.values(PLURALS), "xlistenersets", "namespaces"];
  await until("Gateway API to be watched", async () => {
    const watched = (await system.audit.entries()).filter(({ verb }) => verb === "watch");
    return new Set(watched.map(({ objectRef }) => objectRef?.resource)).isSupersetOf(new Set(resources));
  });
}

/** Lets the controller find a target, and give it up when its Service is gone. */
async function findAndForget(): Promise<void> {
  const status = JSON.stringify({ status: { loadBalancer: { ingress: [{ ip: "203.0.113.8" }] } } });
  const patch = (...object: string[]) =>
    system.kubectl("patch", ...object, "--subresource=status", "--type=merge", "-p", status);
  await system.kubectl("create", "service", "loadbalancer", "lb", "--tcp=80");
  await system.apply(ingress("found", ["found.example.com"], { className: "found" }));
  await patch("service", "lb");
  await patch("ingress", "found");
  const fronts = () => own("get", "svc", "-l", "switchback.dev/target", "-o", "name");
  await until("a found front", async () => (await fronts()).includes("switchback-default-lb-"));
  await system.ready(["found.example.com"]);
  await system.kubectl("delete", "service", "lb");
  await until("it to be given up", async () => !(await fronts()).includes("switchback-default-lb-"));
}

let operatorConfig: string | undefined;
async function operator(): Promise<string> {
  operatorConfig ??= await system.person();
  return operatorConfig;
}

/** Reads `/status` through the API server and the Service, in both ways to write the Service's port. */
async function lookAtStatus(): Promise<void> {
  const [pod = ""] = (await own("get", "pods", "-l", "app.kubernetes.io/component=controller", "-o", "name")).split(
    "\n",
  );
  const { healthPort } = await system.leader();
  await system.cluster.runPod(`${NAMESPACE}/${pod.replace("pod/", "")}`, "203.0.113.7", { 8080: healthPort });
  const client = await connect({ kubeconfig: await operator() });
  const headers = { [STATUS_KEY_HEADER]: (await readStatusKey(client, NAMESPACE)) ?? "" };
  for (const service of ["switchback-controller:http", "http:switchback-controller:http"]) {
    const path = `/api/v1/namespaces/${NAMESPACE}/services/${service}/proxy/status`;
    await until(`the status behind ${service}`, async () => {
      const { text } = await client.raw(path, { headers });
      return (JSON.parse(text) as { leader: boolean }).leader;
    });
  }
  client.close();
  // The command also reads the reports of the publishers.
  const { code, stderr } = await system.cli(["status", "-o", "name", "--switchback-namespace", NAMESPACE], {
    kubeconfig: await operator(),
  });
  assert.notEqual(code, 2, stderr);
}

async function inject(): Promise<void> {
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "p" }, spec: { containers: [] } };
  const kubeconfig = await operator();
  const { code, stderr } = await system.cli(["inject", "-f", "-"], { kubeconfig, input: JSON.stringify(pod) });
  assert.equal(code, 0, stderr);
}

/**
 * Runs `switchback doctor` with a probe, as a user who may read the whole cluster and create pods in one namespace.
 * Ends the pod, as a kubelet would.
 */
async function examine(): Promise<void> {
  const kubeconfig = await operator();
  const group = ["--group", READER];
  await system.kubectl("create", "clusterrolebinding", "readers", "--clusterrole", READER, ...group);
  await system.kubectl("-n", "default", "create", "rolebinding", "probers", "--clusterrole", "edit", ...group);
  await system.apply(edgeService);
  const examined = system.cli(["doctor", "--probe", "-o", "json"], { kubeconfig });
  await until("the probe pod", async () => {
    const pod = await system.kubectl("get", "pods", "-l", "app.kubernetes.io/name=switchback-doctor", "-o", "name");
    if (pod.trim() === "") return false;
    const ended = ["--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}'];
    await system.kubectl("patch", pod.trim(), ...ended);
    return true;
  });
  const { code, stdout, stderr } = await examined;
  assert.equal(code, 1, stderr);
  const { findings } = JSON.parse(stdout) as { findings: { code: string }[] };
  assert.ok(!findings.some((finding) => finding.code === "right-missing"), stdout);
  const left = await system.kubectl("get", "pods", "-l", "app.kubernetes.io/name=switchback-doctor", "-o", "name");
  assert.equal(left.trim(), "");
}

/** The Service behind the target `relayed`. */
const edgeService = `apiVersion: v1
kind: Namespace
metadata: { name: edge }
---
apiVersion: v1
kind: Service
metadata: { namespace: edge, name: nginx }
spec: { type: LoadBalancer, ports: [{ name: http, port: 80 }] }
`;

/**
 * The Role that allowed an entry of the log, or would have allowed it. Accounts and groups have the names of their
 * Roles.
 */
function roleOf({ user }: AuditEntry): string {
  return ACCOUNT.exec(user.username)?.[1] ?? user.username.replace("someone-", "");
}

/**
 * A right. It says whether it is for Switchback's namespace, so that a ClusterRole has none that a Role there could
 * have. The ClusterRole for people is bound both there and in the whole cluster.
 */
function rightOf(role: string, verb: string, what: string, name: string, namespace: string | undefined): string {
  const place = role === READER ? "" : namespace === NAMESPACE ? " here" : " elsewhere";
  return `${role}: ${verb} ${what} ${name}${place}`;
}

/** The rights that a request needs. A creation by server-side apply needs two. */
function rightsOf(entry: AuditEntry): string[] {
  const { verb, objectRef, responseStatus } = entry;
  const { apiGroup = "", resource = "", subresource } = objectRef ?? {};
  const { name = "", namespace } = objectRef ?? {};
  const what = `${apiGroup}/${resource}${subresource === undefined ? "" : `/${subresource}`}`;
  const verbs = verb === "patch" && responseStatus?.code === 201 ? ["patch", "create"] : [verb];
  const role = roleOf(entry);
  return verbs.flatMap((each) => [name, ""].map((either) => rightOf(role, each, what, either, namespace)));
}

/** The kinds that the API server has, as `GROUP/RESOURCE`. */
async function servedKinds(): Promise<ReadonlySet<string>> {
  const names = (await system.kubectl("api-resources", "-o", "name")).trim().split("\n");
  return new Set(names.map((name) => `${name.split(".").slice(1).join(".")}/${name.split(".")[0]}`));
}

interface Rule {
  apiGroups: string[];
  resources: string[];
  resourceNames?: string[];
  verbs: string[];
}

/** One permission per verb, resource and name of the Roles. */
async function grantedRights(): Promise<string[]> {
  const args = ["get", "roles,clusterroles", "-l", "app.kubernetes.io/name=switchback"];
  const list = (namespace: string) =>
    system.json<{ items: { metadata: { name: string; namespace?: string }; rules: Rule[] }[] }>(
      "-n",
      namespace,
      ...args,
    );
  const [ours, theirs] = [(await list(NAMESPACE)).items, (await list(RESTARTED)).items];
  const restarting = theirs.filter(({ metadata }) => metadata.name === "switchback-restart");
  assert.equal(restarting.length, 1);
  // This is the controller's right in a listed namespace, and the uninstall hook's, which uninstall.test.ts runs.
  for (const { metadata } of restarting) metadata.name = "switchback-controller";
  return [...ours, ...restarting].flatMap(({ metadata, rules }) =>
    rules.flatMap(({ apiGroups, resources, resourceNames = [""], verbs }) => {
      const whats = apiGroups.flatMap((group) => resources.map((resource) => `${group}/${resource}`));
      return verbs.flatMap((verb) =>
        whats.flatMap((what) =>
          resourceNames.map((name) => rightOf(metadata.name, verb, what, name, metadata.namespace)),
        ),
      );
    }),
  );
}

describe("RBAC", () => {
  it("is enough: no request of our components was forbidden", async () => {
    const entries = await system.audit.entries();
    const accounts = new Set(entries.map(roleOf));
    assert.deepEqual([...accounts].sort(), ["switchback-controller", "switchback-proxy", READER, "switchback-webhook"]);
    const refused = entries.filter(({ responseStatus }) => [401, 403].includes(responseStatus?.code ?? 0));
    assert.deepEqual(
      refused.map((entry) => `${roleOf(entry)}: ${entry.verb} ${entry.requestURI}`),
      [],
    );
  });

  it("is not too much: every verb of every rule was used, for one object of each purpose", async () => {
    const used = new Set((await system.audit.entries()).flatMap(rightsOf));
    const served = await servedKinds();
    // A rule with two groups also pairs each with the kinds of the other, which the API server does not have.
    const exists = (right: string) => served.has(right.split(" ")[2]?.split("/").slice(0, 2).join("/") ?? "");
    const unused = (await grantedRights()).filter((right) => !used.has(right) && exists(right));
    assert.deepEqual(unused, []);
  });

  it("lets a person's Role do only what its tool does", async () => {
    const kubeconfig = await operator();
    const as = (...args: string[]) => system.cluster.tool("kubectl", ["-n", NAMESPACE, ...args], { kubeconfig });
    for (const args of [
      ["get", "cm"],
      ["get", "cm", "theirs"],
      ["get", "secrets"],
      ["get", "secret", OBJECTS.ca],
      ["delete", "secret", OBJECTS.statusKey],
      ["delete", "cm", OBJECTS.map],
      ["get", "--raw", `/api/v1/namespaces/${NAMESPACE}/services/switchback-webhook:metrics/proxy/metrics`],
    ]) {
      assert.match((await as(...args)).stderr, /forbidden/i, args.join(" "));
    }
  });
});
