import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import type { AdmissionFacts } from "./facts.ts";
import { gatherAdmission } from "./gather-admission.ts";

const CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const PODS = "/api/v1/namespaces/probes/pods";

let server: MemoryServer;
beforeEach(() => {
  server = new MemoryServer();
});

const gather = async (): Promise<AdmissionFacts> => await gatherAdmission(server.client, "probes");

/** Answers the dry run with this status and body, and other requests as usual. */
function answerDryRun(status: number, body: object): void {
  server.onCall = ({ method }) => (method === "POST" ? { status, body } : undefined);
}

test("without a configuration, it is undefined", async () => {
  assert.deepEqual((await gather()).configuration, { known: true, value: undefined });
});

test("the reason names each missing permission", async () => {
  server.onCall = ({ method }) =>
    method === "POST"
      ? { status: 403, body: { kind: "Status", message: 'pods is forbidden: cannot create resource "pods"' } }
      : refusal(403, "Forbidden");
  const missing = (text: string) => ({
    known: false,
    reason: { code: "right-missing", text: `missing permission: ${text}` },
  });
  const configurations = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
  assert.deepEqual(await gather(), {
    configuration: missing(`get ${configurations} switchback-webhook in all namespaces`),
    dryRun: missing("create pods in the namespace probes"),
  });
});

describe("the webhook configuration", () => {
  const entries = async (...webhooks: object[]) => {
    server.add(CONFIGURATION, "switchback-webhook", { webhooks });
    return (await gather()).configuration;
  };

  test("keeps policy and the namespace of its Service, with the API server's defaults for unset fields", async () => {
    const found = await entries(
      { name: "a" },
      { name: "b", failurePolicy: "Ignore", clientConfig: { service: { namespace: "n", name: "s" } } },
      { name: "c", clientConfig: { url: "https://w" } },
    );
    const base = { failurePolicy: "Fail" };
    assert.deepEqual(found, {
      known: true,
      value: [
        { name: "a", ...base, serviceNamespace: undefined },
        { name: "b", failurePolicy: "Ignore", serviceNamespace: "n" },
        { name: "c", ...base, serviceNamespace: undefined },
      ],
    });
  });

  test("is an empty list if it has no webhooks", async () => {
    server.add(CONFIGURATION, "switchback-webhook");
    assert.deepEqual((await gather()).configuration, { known: true, value: [] });
  });
});

describe("the dry run", () => {
  test("creates an opted-in pod that meets the restricted Pod Security Standard and has limits", async () => {
    await gather();
    const [call, ...others] = server.callsOf("POST", PODS);
    assert.deepEqual(others, []);
    assert.equal(String(call?.query), "dryRun=All");
    const small = { cpu: "1m", memory: "1Mi" };
    assert.deepEqual(call?.body, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { generateName: "switchback-doctor-dry-run-", labels: { "switchback.dev/inject": "enabled" } },
      spec: {
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
        containers: [
          {
            name: "none",
            image: "none",
            resources: { requests: small, limits: small },
            securityContext: {
              allowPrivilegeEscalation: false,
              readOnlyRootFilesystem: true,
              capabilities: { drop: ["ALL"] },
            },
          },
        ],
      },
    });
  });

  const message = (text: string) => ({ kind: "Status", message: text });
  const calling = (webhook: string) => `Internal error: failed calling webhook "${webhook}": connection refused`;
  const denied = 'User "x" cannot create resource "pods" in API group ""';
  for (const [what, status, body, expected] of [
    ["a revision: injected", 201, { metadata: { annotations: { "switchback.dev/revision": "1" } } }, "injected"],
    ["another annotation: untouched", 201, { metadata: { annotations: { "switchback.dev/owned": "" } } }, "untouched"],
    ["no annotation: untouched", 201, { metadata: {} }, "untouched"],
    ["an entry of ours that is not reached: blocked", 500, message(calling("pod.switchback.dev")), "blocked"],
    ["another's webhook: refused", 500, message(calling("pod.example.com")), "refused"],
    ["an entry of a second delivery: blocked", 500, message(calling("pod-dns.switchback.dev")), "blocked"],
    ["another's webhook of a similar name: refused", 500, message(calling("pod.switchback.dev.x")), "refused"],
    ["a name that is no entry's: refused", 500, message(calling("a.pod.switchback.dev")), "refused"],
    ["a quota: refused", 403, message("exceeded quota"), "refused"],
    ["the words of RBAC with another status: refused", 500, message(denied), "refused"],
    ["RBAC: unknown", 403, message(denied), "right-missing"],
  ] as const) {
    test(what, async () => {
      answerDryRun(status, body);
      const { dryRun } = await gather();
      assert.equal(dryRun.known ? dryRun.value.outcome : dryRun.reason.code, expected);
      const text = dryRun.known && "text" in dryRun.value ? dryRun.value.text : undefined;
      const refused = expected === "blocked" || expected === "refused";
      const said = "message" in body ? body.message : "";
      assert.equal(text, refused ? `POST ${PODS}: ${status}: ${said}` : undefined);
    });
  }
});
