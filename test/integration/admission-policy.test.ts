import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { OBJECTS } from "../published.ts";
import { assertDenied, assertPasses, callsWith, isDenied } from "./policy-calls.ts";
import { until } from "./system.ts";
import { changed, leavesOf, SET_BY_SERVER, UNCHANGED } from "./webhook-fields.ts";

// What a stolen token of a component can do on a real API server, where RBAC alone would allow more. rights.test.ts
// and restart.test.ts show that the components themselves work under the same policies. Nearly every request is a dry
// run: it passes through admission and changes nothing.

const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const NAMESPACE = "switchback-system";
const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/switchback-webhook";
const SERVICES = `/api/v1/namespaces/${NAMESPACE}/services`;
/** What a Secret of type kubernetes.io/tls must have. */
const DATA = { "tls.crt": "eA==", "tls.key": "eA==" };
const DEPLOYMENT = "/apis/apps/v1/namespaces/shop/deployments/web";
/** In a namespace whose Role is newer than the policies. */
const LATER = DEPLOYMENT.replace("shop", "later");
const WORKLOADS = [DEPLOYMENT, DEPLOYMENT.replace("deployments", "daemonsets"), LATER];

/** The component of the pods that run the controller and the proxy. Their ServiceAccount is named after it. */
const PROCESS = {
  default: { controller: "controller", proxy: "proxy" },
  small: { controller: "all", proxy: "all" },
} as const;

for (const profile of ["default", "small"] as const) {
  describe(`in the profile ${profile}`, () => tokensCanDoNoMore(profile));
}

function tokensCanDoNoMore(profile: keyof typeof PROCESS): void {
  let cluster: ControlPlane;
  /** The token of the process that runs the controller. */
  const tokens = { controller: "" };

  before(async () => {
    cluster = await startControlPlane();
    for (const namespace of ["shop", "later", NAMESPACE])
      await admin("POST", "/api/v1/namespaces", { metadata: { name: namespace } });
    const tolerated = ['cloud.google.com/neg={"ingress":true}', "policies.example.com/"];
    const values = { profile, admission: { tolerated }, config: { restart: { namespaces: ["shop"] } } };
    const args = ["install", "switchback", CHART, "-n", NAMESPACE, "--values", "-"];
    const { code, stderr } = await cluster.tool("helm", args, { input: JSON.stringify(values) });
    assert.equal(code, 0, stderr);
    tokens.controller = await cluster.tokenFor(`${NAMESPACE}/switchback-${PROCESS[profile].controller}`);
    await admin("POST", "/apis/apps/v1/namespaces/shop/deployments", deployment());
    await admin("POST", "/apis/apps/v1/namespaces/shop/daemonsets", { ...deployment(), kind: "DaemonSet" });
    await admin("POST", LATER.replace("/web", ""), deployment("later"));
    await admin("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/later/rolebindings", {
      metadata: { name: "later" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "edit" },
      subjects: [{ kind: "ServiceAccount", name: `switchback-${PROCESS[profile].controller}`, namespace: NAMESPACE }],
    });
    await admin("POST", SERVICES, front("there"));
    await until("the policies to be in force", async () => {
      const each = [
        await json("controller", CONFIGURATION, [{ op: "replace", path: "/webhooks/0/timeoutSeconds", value: 3 }]),
        await apply("controller", `${SERVICES}/switchback-x`, front("x", { selector: { app: "theirs" } })),
        await merge("controller", DEPLOYMENT, { spec: { paused: true } }),
        await merge("controller", LATER, { spec: { paused: true } }),
      ];
      return each.every(isDenied);
    });
  });
  after(() => cluster?.stop());

  const { send, apply, merge, json, admin } = callsWith(() => cluster, tokens);

  const PROXIES = { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": PROCESS[profile].proxy };

  const labelsOf = (target: string) => ({
    "app.kubernetes.io/name": "switchback",
    "app.kubernetes.io/component": "front",
    "switchback.dev/target": target,
  });

  /** A front Service as the controller applies it, with the given changes. */
  function front(target: string, spec: object = {}, labels: object = labelsOf(target)) {
    const ports = [{ name: "tcp-443", port: 443, protocol: "TCP", targetPort: 15_000 }];
    return {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: `switchback-${target}`, namespace: NAMESPACE, labels },
      spec: { type: "ClusterIP", ipFamilyPolicy: "PreferDualStack", selector: PROXIES, ports, ...spec },
    };
  }

  function deployment(namespace = "shop") {
    const labels = { app: "web" };
    const containers = [{ name: "web", image: "web" }];
    return {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", namespace },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
    };
  }

  describe("the controller's token on the webhook configuration", () => {
    const caBundle = Buffer.from("-----BEGIN CERTIFICATE-----").toString("base64");

    it("changes caBundle, by JSON patch and by apply", async () => {
      const value = Buffer.from(cluster.ca.cert).toString("base64");
      const patch = [0, 1].map((at) => ({ op: "add", path: `/webhooks/${at}/clientConfig/caBundle`, value }));
      assertPasses(await json("controller", CONFIGURATION, patch));
      const webhooks = ["namespace", "pod"].map((name) => ({
        name: `${name}.switchback.dev`,
        clientConfig: { caBundle: value },
      }));
      const object = { apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingWebhookConfiguration", webhooks };
      assertPasses(await apply("controller", CONFIGURATION, { ...object, metadata: { name: "switchback-webhook" } }));
    });

    it("changes no other field that the API server's schema has, and the admin may", async () => {
      const { body } = await cluster.call({ path: "/openapi/v3/apis/admissionregistration.k8s.io/v1" });
      const fields = leavesOf(body, "io.k8s.api.admissionregistration.v1.MutatingWebhookConfiguration");
      const known = [...Object.keys(changed), ...SET_BY_SERVER, ...UNCHANGED].sort();
      assert.deepEqual(fields, known, "a field of the schema that no change here tries, or the reverse");
      for (const [field, patch] of Object.entries(changed)) {
        const answer = await json("controller", CONFIGURATION, patch);
        assert.ok(isDenied(answer), `${field}: ${answer.status} ${answer.message}`);
        const asAdmin = await cluster.call({
          method: "PATCH",
          path: `${CONFIGURATION}?dryRun=All`,
          contentType: "application/json-patch+json",
          body: JSON.stringify(patch),
        });
        assert.equal(asAdmin.status, 200, `${field}: the change is valid, so that it was the policy that denied it`);
      }
    });

    it("cannot set the fields that the API server sets", async () => {
      const before = (await admin("GET", CONFIGURATION)) as { metadata: Record<string, unknown> };
      for (const field of SET_BY_SERVER) {
        const key = field.replace("metadata.", "");
        if (["managedFields", "resourceVersion"].includes(key)) continue;
        const value = key === "generation" || key === "deletionGracePeriodSeconds" ? 77 : "2020-01-01T00:00:00Z";
        await cluster.call({
          method: "PATCH",
          path: CONFIGURATION,
          contentType: "application/merge-patch+json",
          body: JSON.stringify({ metadata: { [key]: value } }),
          token: tokens.controller,
        });
      }
      const now = (await admin("GET", CONFIGURATION)) as typeof before;
      const set = ({ metadata }: typeof before) => ({ ...metadata, managedFields: 0, resourceVersion: 0 });
      assert.deepEqual(set(now), set(before));
    });

    for (const [what, patch] of [
      [
        "one more entry",
        [
          { op: "copy", from: "/webhooks/0", path: "/webhooks/-" },
          { op: "replace", path: "/webhooks/3/name", value: "fourth.switchback.dev" },
        ],
      ],
      ["the loss of an entry", [{ op: "remove", path: "/webhooks/0" }]],
      ["the loss of all entries", [{ op: "remove", path: "/webhooks" }]],
      ["another order", [{ op: "move", from: "/webhooks/1", path: "/webhooks/0" }]],
      ["the loss of a selector", [{ op: "remove", path: "/webhooks/0/namespaceSelector" }]],
      ["the loss of all labels", [{ op: "remove", path: "/metadata/labels" }]],
      ["the loss of a label", [{ op: "remove", path: "/metadata/labels/app.kubernetes.io~1name" }]],
      [
        "caBundle together with something else",
        [
          { op: "add", path: "/webhooks/0/clientConfig/caBundle", value: caBundle },
          { op: "replace", path: "/webhooks/1/failurePolicy", value: "Fail" },
        ],
      ],
    ] as const) {
      it(`cannot do: ${what}`, async () => assertDenied(await json("controller", CONFIGURATION, patch)));
    }

    it("cannot delete it, and RBAC does not let it create one", async () => {
      const { status } = await send("controller", "DELETE", CONFIGURATION);
      assert.equal(status, 403);
      const other = CONFIGURATION.replace("switchback-webhook", "another");
      const object = { apiVersion: "admissionregistration.k8s.io/v1", kind: "MutatingWebhookConfiguration" };
      assert.equal((await apply("controller", other, { ...object, metadata: { name: "another" } })).status, 403);
    });
  });

  describe("the controller's token on Services", () => {
    const write = (target: string, spec?: object, labels?: object) =>
      apply("controller", `${SERVICES}/switchback-${target}`, front(target, spec, labels));

    it("creates, changes and deletes front Services, and repairs one that somebody has edited", async () => {
      assertPasses(await write("new"));
      assertPasses(await write("there", { clusterIP: undefined }));
      assertPasses(await send("controller", "DELETE", `${SERVICES}/switchback-there`));
      const labels = { "app.kubernetes.io/component": "front" };
      await admin("POST", SERVICES, front("bent", { selector: { app: "theirs" } }, labels));
      assertPasses(await write("bent"));
      assertDenied(await merge("controller", `${SERVICES}/switchback-bent`, { spec: { type: "NodePort" } }));
    });

    it("may write one to which others have added fields", async () => {
      const { metadata, ...rest } = front("shared", { sessionAffinity: "ClientIP" });
      const annotations = { "external-dns.kubernetes.io/hostname": "theirs.example.com" };
      await admin("POST", SERVICES, { ...rest, metadata: { ...metadata, annotations } });
      assertPasses(await write("shared"));
    });

    for (const [what, target, spec, labels] of [
      ["external addresses", "x", { externalIPs: ["198.51.100.1"] }],
      ["external addresses for one that is there", "there", { externalIPs: ["198.51.100.1"] }],
      ["a load balancer", "x", { type: "LoadBalancer" }],
      ["node ports", "there", { type: "NodePort" }],
      [
        "a name that a DNS server elsewhere resolves",
        "x",
        { type: "ExternalName", externalName: "evil.example.com", ipFamilyPolicy: undefined },
      ],
      ["pods of others", "x", { selector: { app: "theirs" } }],
      ["more pods than the proxies", "x", { selector: { "app.kubernetes.io/name": "switchback" } }],
      ["no selector, so that endpoints may be written by hand", "x", { selector: {} }],
      ["no label", "x", {}, {}],
      ["the label of another", "x", {}, { "switchback.dev/target": "y" }],
      ["the webhook's name", "webhook", {}],
      ["the controller's name", "controller", {}],
      ["the proxies' name", "proxy", {}],
      ["the name of a resolver", "dns-b", {}],
    ] as const) {
      it(`cannot write one with ${what}`, async () => assertDenied(await write(target, spec, labels)));
    }

    it("cannot take over, change or delete the webhook's Service", async () => {
      const path = `${SERVICES}/switchback-webhook`;
      assertDenied(await send("controller", "DELETE", path));
      assertDenied(await merge("controller", path, { spec: { selector: { app: "theirs" } } }));
      assertDenied(
        await merge("controller", path, { spec: { type: "ExternalName", externalName: "evil.example.com" } }),
      );
      assertDenied(await merge("controller", path, { spec: { externalIPs: ["198.51.100.1"] } }));
      assertDenied(await merge("controller", path, { metadata: { labels: { "switchback.dev/target": "webhook" } } }));
    });

    const metadataOf = (target: string, more: object) => ({ metadata: { ...front(target).metadata, ...more } });
    const owner = { apiVersion: "v1", kind: "ConfigMap", name: "a", uid: "a" };
    for (const [what, more] of [
      ...["external-dns.alpha.kubernetes.io/", "external-dns.kubernetes.io/"].flatMap((prefix) =>
        ["hostname", "internal-hostname", "target", "ttl"].map((key) => {
          const annotation = `${prefix}${key}`;
          return [annotation, { annotations: { [annotation]: "bank.example.com" } }] as const;
        }),
      ),
      ["an annotation of a cloud", { annotations: { "service.beta.kubernetes.io/aws-load-balancer-type": "nlb" } }],
      ["a finalizer", { finalizers: ["example.com/never"] }],
      ["an owner", { ownerReferences: [owner] }],
      ["a label", { labels: { ...labelsOf("x"), "example.com/mine": "yes" } }],
    ] as const) {
      it(`cannot write one with metadata of its choice: ${what}`, async () => {
        assertDenied(
          await apply("controller", `${SERVICES}/switchback-x`, { ...front("x"), ...metadataOf("x", more) }),
        );
        const labels = { labels: { ...labelsOf("there"), ...("labels" in more && { "example.com/mine": "yes" }) } };
        assertDenied(
          await merge("controller", `${SERVICES}/switchback-there`, metadataOf("there", { ...more, ...labels })),
        );
      });
    }

    it("may write one to which other webhooks add tolerated annotations and labels", async () => {
      const annotations = { "cloud.google.com/neg": '{"ingress":true}' };
      const labels = { ...labelsOf("x"), "policies.example.com/team": "edge" };
      const object = { ...front("x"), ...metadataOf("x", { annotations, labels }) };
      assertPasses(await apply("controller", `${SERVICES}/switchback-x`, object));
      const clouds = { "cloud.google.com/neg": '{"exposed_ports":{}}', "cloud.google.com/neg-status": "" };
      for (const [key, value] of Object.entries({ ...clouds, "policies.example.com.example.org/team": "" })) {
        const other = { ...front("x"), ...metadataOf("x", { annotations: { [key]: value } }) };
        assertDenied(await apply("controller", `${SERVICES}/switchback-x`, other));
      }
    });

    for (const [what, spec] of [
      ["addresses of pods that are not ready", { publishNotReadyAddresses: true }],
      ["session affinity", { sessionAffinity: "ClientIP" }],
      ["endpoints of its own node", { internalTrafficPolicy: "Local" }],
      ["a UDP port", { ports: [{ name: "udp-443", port: 443, protocol: "UDP", targetPort: 15_000 }] }],
      ["a port of another name", { ports: [{ name: "https", port: 443, protocol: "TCP", targetPort: 15_000 }] }],
      ["a protocol of a port", { ports: [{ name: "tcp-443", port: 443, protocol: "TCP", appProtocol: "https" }] }],
    ] as const) {
      it(`cannot write one with a field that the controller does not write: ${what}`, async () => {
        assertDenied(await write("x", spec));
        assertDenied(await write("there", spec));
      });
    }

    // Running pods use the ClusterIPs of the resolvers' Services as nameservers.
    it("cannot redirect, relabel or delete a resolver's Service, or one without the label of a front", async () => {
      for (const [target, labels] of [
        ["dns-a", { "app.kubernetes.io/name": "switchback", "app.kubernetes.io/component": "dns" }],
        ["stranger", {}],
        ["relabelled", { "switchback.dev/target": "other" }],
      ] as const) {
        await admin("POST", SERVICES, front(target, { selector: { app: "theirs" } }, labels));
        const path = `${SERVICES}/switchback-${target}`;
        assertDenied(await send("controller", "DELETE", path));
        assertDenied(await write(target));
        assertDenied(await merge("controller", path, { metadata: { labels: labelsOf(target) } }));
        assertDenied(await merge("controller", path, { spec: { selector: PROXIES } }));
      }
    });

    it("cannot change others' Services in our namespace, or create one with generateName", async () => {
      const theirs = front("x");
      await admin("POST", SERVICES, { ...theirs, metadata: { name: "theirs", namespace: NAMESPACE } });
      assertDenied(await merge("controller", `${SERVICES}/theirs`, { spec: { externalIPs: ["198.51.100.1"] } }));
      assertDenied(await send("controller", "DELETE", `${SERVICES}/theirs`));
      const { name: _, ...metadata } = theirs.metadata;
      const unnamed = { ...theirs, metadata: { ...metadata, generateName: "switchback-x" } };
      assertDenied(await send("controller", "POST", SERVICES, unnamed));
    });
  });

  describe("the controller's token on its state objects", () => {
    const of = (kind: string, name: string, more: object, metadata: object = {}) => ({
      apiVersion: kind === "Lease" ? "coordination.k8s.io/v1" : "v1",
      kind,
      metadata: { name, namespace: NAMESPACE, ...metadata },
      ...more,
    });
    for (const [name, own, other] of [
      [OBJECTS.serving, "kubernetes.io/tls", "Opaque"],
      [OBJECTS.ca, "Opaque", "kubernetes.io/tls"],
      [OBJECTS.statusKey, "Opaque", "bootstrap.kubernetes.io/token"],
    ] as const)
      it(`writes the Secret ${name} only with the type ${own}`, async () => {
        const path = `/api/v1/namespaces/${NAMESPACE}/secrets/${name}`;
        const write = (type: string) => apply("controller", path, of("Secret", name, { type, data: DATA }));
        assertPasses(await write(own));
        assertDenied(await write(other));
      });

    for (const [kind, name, path, content, foreign] of [
      ["ConfigMap", OBJECTS.map, "/api/v1", { data: { state: "x" } }, { immutable: true }],
      ["Secret", OBJECTS.statusKey, "/api/v1", { type: "Opaque", data: { key: "eA==" } }, { immutable: true }],
      [
        "Lease",
        OBJECTS.lease,
        "/apis/coordination.k8s.io/v1",
        { spec: { holderIdentity: "a" } },
        // There is no foreign field to try: the Lease's other fields need a feature gate, so the API server drops
        // them.
        undefined,
      ],
    ] as const) {
      it(`writes its ${kind}, and cannot add other fields or metadata`, async () => {
        const url = `${path}/namespaces/${NAMESPACE}/${kind.toLowerCase()}s/${name}`;
        assertPasses(await apply("controller", url, of(kind, name, content)));
        for (const object of [
          ...(foreign ? [of(kind, name, { ...content, ...foreign })] : []),
          of(kind, name, content, { labels: { "switchback.dev/publisher": "coredns" } }),
          of(kind, name, content, { annotations: { mine: "yes" } }),
          of(kind, name, content, { finalizers: ["example.com/never"] }),
          of(kind, name, content, { ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "a", uid: "a" }] }),
        ])
          assertDenied(await apply("controller", url, object));
      });
    }
  });

  describe("the controller's token on workloads that it may restart", () => {
    const restartedAt = {
      metadata: { annotations: { "switchback.dev/restarts": "record" } },
      spec: { template: { metadata: { annotations: { "switchback.dev/restartedAt": "now" } } } },
    };

    it("restarts them", async () => {
      for (const path of WORKLOADS) assertPasses(await merge("controller", path, restartedAt));
    });

    it("cannot change anything else in them", async () => {
      const template = (changes: object) => ({ spec: { template: changes } });
      assertDenied(await merge("controller", DEPLOYMENT, { spec: { replicas: 100 } }));
      assertDenied(await merge("controller", DEPLOYMENT, { spec: { paused: true } }));
      const counted = { metadata: { annotations: { "deprecated.daemonset.template.generation": "7" } } };
      assertDenied(await merge("controller", DEPLOYMENT, counted));
      for (const change of [
        template({ spec: { serviceAccountName: "admin" } }),
        template({ spec: { containers: [{ name: "web", image: "evil" }] } }),
        template({ spec: { hostAliases: [{ ip: "198.51.100.1", hostnames: ["bank.example.com"] }] } }),
        template({ metadata: { annotations: { "sidecar.example.com/inject": "true" } } }),
        template({ metadata: { annotations: { "switchback.dev/restarts": "record" } } }),
        template({ metadata: { labels: { "switchback.dev/inject": "enabled" } } }),
        { spec: { minReadySeconds: 100 } },
        { metadata: { labels: { a: "b" } } },
        { metadata: { annotations: { a: "b" } } },
        { metadata: { finalizers: ["example.com/never"] } },
      ])
        for (const path of WORKLOADS) assertDenied(await merge("controller", path, change));
    });
  });
}
