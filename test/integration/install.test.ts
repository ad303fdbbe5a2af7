import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parseAllDocuments } from "yaml";
import { CONFIG_NAME } from "#lib/documents/installed-config.ts";
import { OBJECTS, STRAYS, WRITTEN } from "../published.ts";
import {
  applyAs,
  bundles,
  CONFIGURATION,
  cluster,
  frontService,
  IN_NAMESPACE,
  INSTALL,
  kubectl,
  NAMESPACE,
  tokenOf,
  useControlPlane,
  writeBundle,
} from "./install-rig.ts";
import type { Rendered } from "./rendered.ts";

// install.yaml on a real API server: applied as a user would, and what each ServiceAccount may do then.

useControlPlane();

describe("install.yaml", () => {
  it("is accepted by server-side apply without a warning, and a second apply changes nothing", async () => {
    assert.doesNotMatch(await kubectl("apply", "--server-side", "-f", INSTALL), /warning/i);
    const version = async () =>
      ((await cluster.call({ path: CONFIGURATION })).body as Rendered).metadata.resourceVersion;
    const before = await version();
    await kubectl("apply", "--server-side", "-f", INSTALL);
    assert.equal(await version(), before);
  });

  it("is accepted again, by both ways to apply, and keeps the caBundle", async () => {
    const caBundle = await writeBundle();
    await kubectl("apply", "--server-side", "-f", INSTALL);
    assert.deepEqual(await bundles(), [caBundle, caBundle, caBundle]);
    await kubectl("apply", "-f", INSTALL);
    await kubectl("apply", "-f", INSTALL);
    assert.deepEqual(await bundles(), [caBundle, caBundle, caBundle]);
  });

  it("has pods that the restricted Pod Security level admits, and keeps others out of the namespace", async () => {
    const templates = parseAllDocuments(readFileSync(INSTALL, "utf8"))
      .map((document) => document.toJS())
      .filter((object) => object?.kind === "Deployment")
      .map(({ metadata, spec }) => ({ name: metadata.name, template: spec.template }));
    assert.equal(templates.length, 3);
    const create = (name: string, { metadata, spec }: Rendered) =>
      cluster.call({
        method: "POST",
        path: `${IN_NAMESPACE}/pods?dryRun=All&fieldValidation=Strict`,
        body: { apiVersion: "v1", kind: "Pod", metadata: { ...metadata, name }, spec },
      });
    for (const { name, template } of templates) {
      const { status, body } = await create(name, template);
      assert.equal(status, 201, JSON.stringify(body));
      const [container] = template.spec.containers;
      const loose = { ...template.spec, containers: [{ ...container, securityContext: {} }] };
      const refused = await create(name, { ...template, spec: loose });
      assert.equal(refused.status, 403, "Pod Security is on");
    }
  });

  it("has Deployments whose pods come up", async () => {
    for (const component of ["controller", "webhook", "proxy"]) {
      await kubectl(
        ...["wait", "--timeout=20s", "--namespace", NAMESPACE],
        ...["--for=jsonpath={.status.replicas}=2", `deployment/switchback-${component}`],
      );
    }
  });
});

describe("rights", () => {
  interface Question {
    readonly verb: string;
    readonly group?: string;
    readonly resource: string;
    readonly name?: string;
    /** Default: our own. "" stands for all namespaces, or for cluster-scoped objects. */
    readonly namespace?: string;
    readonly subresource?: string;
  }

  async function may(component: string, { group = "", namespace = NAMESPACE, ...rest }: Question): Promise<boolean> {
    const { body } = await cluster.call({
      method: "POST",
      path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
      body: {
        apiVersion: "authorization.k8s.io/v1",
        kind: "SubjectAccessReview",
        spec: {
          user: `system:serviceaccount:${NAMESPACE}:switchback-${component}`,
          groups: ["system:serviceaccounts", `system:serviceaccounts:${NAMESPACE}`, "system:authenticated"],
          resourceAttributes: { group, namespace, ...rest },
        },
      },
    });
    return (body as Rendered).status.allowed;
  }

  const each = (verbs: string, question: Omit<Question, "verb">): Question[] =>
    verbs.split(" ").map((verb) => ({ verb, ...question }));
  const ingresses = { group: "networking.k8s.io", resource: "ingresses", namespace: "" };
  const routes = { group: "gateway.networking.k8s.io", resource: "httproutes", namespace: "" };
  const configuration = {
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    namespace: "",
  };
  const leases = { group: "coordination.k8s.io", resource: "leases" };
  const events = { group: "events.k8s.io", resource: "events" };

  const TARGETS = each("list watch", { resource: "configmaps", name: OBJECTS.targets });
  const MAP = each("list watch", { resource: "configmaps", name: OBJECTS.map });

  const ALLOWED: Record<string, Question[]> = {
    controller: [
      ...each("list watch", ingresses),
      ...each("list watch", { ...ingresses, resource: "ingressclasses" }),
      ...["gatewayclasses", "gateways", "listenersets", "httproutes", "grpcroutes", "tlsroutes"].flatMap((resource) =>
        each("list watch", { ...routes, resource }),
      ),
      ...each("list watch", { ...routes, group: "gateway.networking.x-k8s.io", resource: "xlistenersets" }),
      ...each("list watch", { resource: "namespaces", namespace: "" }),
      ...each("get list watch", { resource: "pods", namespace: "" }),
      ...each("create", { ...events, namespace: "default" }),
      ...each("get list watch patch", { ...configuration, name: "switchback-webhook" }),
      ...MAP,
      ...TARGETS,
      ...WRITTEN.flatMap((name) => each("create patch", { resource: "configmaps", name })),
      ...each("update", { resource: "configmaps", name: OBJECTS.map }),
      ...each("list watch", { resource: "services" }),
      ...each("create patch delete", { resource: "services" }),
      ...each("list watch", { resource: "services", namespace: "" }),
      ...each("list watch", { group: "discovery.k8s.io", resource: "endpointslices" }),
      ...each("get list watch create patch", { resource: "secrets", name: OBJECTS.ca }),
      ...each("get list watch create patch", { resource: "secrets", name: OBJECTS.serving }),
      ...each("get create update patch", { ...leases, name: OBJECTS.lease }),
      ...each("create", events),
    ],
    webhook: [...MAP, ...each("list watch", { resource: "secrets", name: OBJECTS.serving })],
    proxy: TARGETS,
  };

  /** What no component may do. What only some components may do follows from the table above. */
  const DENIED: Question[] = [
    ...each("get list watch", { resource: "secrets" }),
    ...each("get list watch create patch update delete", { resource: "secrets", name: "another" }),
    ...each("get list watch", { resource: "secrets", namespace: "" }),
    ...each("get list watch", { resource: "secrets", name: OBJECTS.ca, namespace: "default" }),
    ...each("delete update", { resource: "secrets", name: OBJECTS.serving }),
    ...each("list watch", { resource: "configmaps", namespace: "" }),
    ...each("get list", { resource: "configmaps", namespace: "kube-system" }),
    ...each("create", { resource: "configmaps" }),
    ...each("list watch", { resource: "configmaps" }),
    ...WRITTEN.flatMap((name) => each("delete", { resource: "configmaps", name })),
    ...each("update", { resource: "configmaps", name: OBJECTS.targets }),
    ...each("create patch update delete", { resource: "configmaps", name: CONFIG_NAME }),
    ...STRAYS.flatMap((name) => each("create patch delete", { resource: "configmaps", name })),
    ...each("update", { resource: "services" }),
    ...each("create patch update delete", { resource: "services", namespace: "" }),
    ...each("get", { resource: "services", name: "kubernetes", namespace: "default" }),
    ...each("create patch update delete", { group: "discovery.k8s.io", resource: "endpointslices" }),
    ...each("list watch", { group: "discovery.k8s.io", resource: "endpointslices", namespace: "" }),
    ...each("create update patch delete", ingresses),
    ...each("create update patch delete", routes),
    ...each("update patch", { ...routes, subresource: "status" }),
    ...each("list watch create", configuration),
    ...each("create update delete", { ...configuration, name: "switchback-webhook" }),
    ...each("get patch", { ...configuration, name: "another" }),
    ...each("list watch create", leases),
    ...each("get update patch", { ...leases, name: "another" }),
    ...each("delete", { ...leases, name: OBJECTS.lease }),
    ...each("list delete", events),
    ...each("create patch update delete", { resource: "pods" }),
    ...each("create", { resource: "pods", subresource: "exec" }),
    ...each("create patch update delete", { resource: "pods", namespace: "" }),
    ...each("get create patch update delete", { resource: "namespaces", namespace: "" }),
    ...each("get list watch", { resource: "nodes", namespace: "" }),
    ...each("list watch patch update", { group: "apps", resource: "deployments" }),
    ...each("list watch", { group: "apps", resource: "replicasets", namespace: "" }),
    ...each("create", { resource: "serviceaccounts", name: "switchback-controller", subresource: "token" }),
    ...each("create patch", { group: "rbac.authorization.k8s.io", resource: "rolebindings" }),
    ...each("bind escalate", { group: "rbac.authorization.k8s.io", resource: "clusterroles", namespace: "" }),
    ...each("impersonate", { resource: "users", namespace: "" }),
  ];

  for (const component of ["controller", "webhook", "proxy"]) {
    it(`of the ${component} are those of the table, and none of those of the others`, async () => {
      const own = ALLOWED[component] ?? [];
      const key = (question: Question) => JSON.stringify(question);
      const owned = new Set(own.map(key));
      const others = Object.values(ALLOWED)
        .flat()
        .filter((question) => !owned.has(key(question)));
      const wrong: string[] = [];
      for (const question of own) if (!(await may(component, question))) wrong.push(`missing: ${key(question)}`);
      for (const question of [...DENIED, ...others]) {
        if (await may(component, question)) wrong.push(`too much: ${key(question)}`);
      }
      assert.deepEqual(wrong, []);
    });
  }

  it("of the proxy are one object more than every account has", async () => {
    const account = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "nobody" } };
    await cluster.call({ method: "POST", path: `${IN_NAMESPACE}/serviceaccounts`, body: account });
    const everybodys = (await rulesOf(await cluster.tokenFor(`${NAMESPACE}/nobody`))).map((rule) =>
      JSON.stringify(rule),
    );
    const own = (await rulesOf(await tokenOf("proxy"))).filter((rule) => !everybodys.includes(JSON.stringify(rule)));
    assert.deepEqual(own, [
      { verbs: ["list", "watch"], apiGroups: [""], resources: ["configmaps"], resourceNames: [OBJECTS.targets] },
    ]);
  });

  it("let the controller create exactly the named objects by server-side apply, and nothing by POST", async () => {
    const head = (kind: string, name: string) => ({ apiVersion: "v1", kind, metadata: { namespace: NAMESPACE, name } });
    const object = (resource: string, name: string) => {
      if (resource === "services") return frontService(name);
      return head(resource === "secrets" ? "Secret" : "ConfigMap", name);
    };
    const cases: [string, string, number][] = [
      ...WRITTEN.map((name): [string, string, number] => ["configmaps", name, 201]),
      ...STRAYS.map((name): [string, string, number] => ["configmaps", name, 403]),
      ["secrets", OBJECTS.ca, 201],
      ["secrets", "switchback-mine", 403],
      ["services", "switchback-ingress-nginx", 201],
    ];
    for (const [resource, name, expected] of cases) {
      const status = await applyAs("controller", `${IN_NAMESPACE}/${resource}/${name}`, object(resource, name));
      assert.equal(status, expected, `${resource}/${name}`);
    }
    const post = { method: "POST", path: `${IN_NAMESPACE}/configmaps`, token: await tokenOf("controller") };
    assert.equal((await cluster.call({ ...post, body: object("configmaps", OBJECTS.map) })).status, 403);
  });

  it("let the Lease be created by apply, and then be replaced", async () => {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${NAMESPACE}/leases/${OBJECTS.lease}`;
    const metadata = { namespace: NAMESPACE, name: OBJECTS.lease };
    const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec: {} };
    assert.equal(await applyAs("controller", path, lease), 201);
    const token = await tokenOf("controller");
    const { body } = await cluster.call({ path, token });
    assert.equal((await cluster.call({ method: "PUT", path, body, token })).status, 200);
  });

  it("let an Event be created in the namespace of the object that it is about", async () => {
    const status = async (namespace: string, regarding: object) => {
      const body = {
        apiVersion: "events.k8s.io/v1",
        kind: "Event",
        metadata: { generateName: "switchback-", namespace },
        eventTime: "2026-01-01T00:00:00.000000Z",
        type: "Normal",
        reason: "RemovalHeld",
        action: "Publish",
        reportingController: "switchback.dev/switchback-controller",
        reportingInstance: "test",
        regarding: { namespace, ...regarding },
      };
      const path = `/apis/events.k8s.io/v1/namespaces/${namespace}/events`;
      return (await cluster.call({ method: "POST", path, body, token: await tokenOf("controller") })).status;
    };
    const map = { apiVersion: "v1", kind: "ConfigMap", name: OBJECTS.map };
    const ingress = { apiVersion: "networking.k8s.io/v1", kind: "Ingress", name: "web" };
    assert.deepEqual([await status(NAMESPACE, map), await status("default", ingress)], [201, 201]);
  });

  it("let single objects be listed and watched by their name, and refuse lists without the name", async () => {
    const cases: [string, string, number][] = [
      ["controller", `${IN_NAMESPACE}/secrets?fieldSelector=metadata.name%3D${OBJECTS.ca}`, 200],
      ["controller", `${IN_NAMESPACE}/secrets`, 403],
      ["controller", `${IN_NAMESPACE}/secrets?fieldSelector=metadata.name%3Danother`, 403],
      ["controller", `${CONFIGURATION.replace(/\/[^/]+$/, "")}?fieldSelector=metadata.name%3Dswitchback-webhook`, 200],
      ["webhook", `${IN_NAMESPACE}/secrets?fieldSelector=metadata.name%3D${OBJECTS.serving}`, 200],
      ["webhook", `${IN_NAMESPACE}/secrets?fieldSelector=metadata.name%3D${OBJECTS.ca}`, 403],
      ["webhook", `${IN_NAMESPACE}/configmaps?fieldSelector=metadata.name%3D${OBJECTS.map}`, 200],
      ["webhook", "/api/v1/configmaps", 403],
    ];
    for (const [component, path, expected] of cases) {
      const token = await tokenOf(component);
      assert.equal((await cluster.call({ path, token })).status, expected, `${component}: ${path}`);
    }
    const kubeconfig = await cluster.kubeconfigFor({ token: await tokenOf("webhook") });
    const watch = (name: string) => {
      const path = `${IN_NAMESPACE}/secrets?fieldSelector=metadata.name%3D${name}&watch=true&timeoutSeconds=1`;
      return cluster.tool("kubectl", ["get", "--raw", path], { kubeconfig });
    };
    assert.equal((await watch(OBJECTS.serving)).code, 0);
    assert.match((await watch(OBJECTS.ca)).stderr, /forbidden/i);
  });

  it("of a person, once bound, allow to read the status and change nothing", async () => {
    const binding = ["rolebinding", "operators", "--clusterrole", "switchback-reader", "--group", "operators"];
    await kubectl("create", ...binding, "--namespace", NAMESPACE);
    const kubeconfig = await cluster.kubeconfigFor({ clientCert: cluster.ca.client("someone", ["operators"]) });
    const as = (...args: string[]) => cluster.tool("kubectl", ["--namespace", NAMESPACE, ...args], { kubeconfig });
    for (const name of [OBJECTS.map, CONFIG_NAME]) {
      assert.match((await as("annotate", "configmap", name, "a=1")).stderr, /forbidden/);
    }
    const status = (name: string) => as("get", "--raw", `${IN_NAMESPACE}/services/${name}/proxy/status`);
    for (const name of ["http:switchback-controller:http", "switchback-controller:http"]) {
      assert.doesNotMatch((await status(name)).stderr, /forbidden/i, "nothing answers here, but it is allowed");
    }
    assert.match((await status("switchback-webhook:metrics")).stderr, /forbidden/i);
  });
});

async function rulesOf(token: string): Promise<Rendered[]> {
  const review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectRulesReview",
    spec: { namespace: NAMESPACE },
  };
  const path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
  const { body } = await cluster.call({ method: "POST", path, body: review, token });
  return (body as Rendered).status.resourceRules;
}
