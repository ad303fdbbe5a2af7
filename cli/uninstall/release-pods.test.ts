import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { UninstallPart } from "#extras/uninstall-part.ts";
import {
  addDeployment,
  addHolder,
  FRONT_IP,
  installed,
  NAMESPACE,
  ours,
  planOf,
  runUninstall,
  WEBHOOK_PATH,
} from "#test/fakes/installed.ts";
import { type MemoryServer, refusal } from "#test/fakes/memory-server.ts";

const waiting = (workloads: string) => `waiting for the old pods of ${workloads}`;
const WEBHOOK_GONE = "the webhook configuration switchback-webhook is gone: new pods are no longer injected";
const FREE = "no pod holds an address of Switchback";
const WEB = "/apis/apps/v1/namespaces/shop/deployments/web";
const PODS = "/api/v1/pods";

/** Removes the old pod of a Deployment. A restart does this at once or after some seconds. */
function rollsOut(api: MemoryServer, name: string): void {
  api.objects.delete(`/api/v1/namespaces/shop/pods/${name}-old`);
}

describe("releasePods", () => {
  test("without holders deletes the webhook configuration and nothing else", async (t) => {
    const api = installed();
    const { done, said, time } = runUninstall(t, api);
    await done;
    assert.deepEqual(said, [WEBHOOK_GONE, FREE]);
    assert.deepEqual(api.writes, [`DELETE ${WEBHOOK_PATH}`, `DELETE ${WEBHOOK_PATH}`]);
    assert.deepEqual(time.waits, [2_000]);
  });

  test("runs in the only order that works: webhook, restarts, wait for old pods, steps of extras", async (t) => {
    const api = installed();
    for (const name of ["web", "api"]) addDeployment(api, "shop", name);
    const { parts, steps } = twoSteps();
    const { done, said, saidAt, time } = runUninstall(t, api, {
      parts,
      onWait: (elapsed) => {
        if (elapsed === 2_000) assert.deepEqual(api.writes, [`DELETE ${WEBHOOK_PATH}`]);
        if (elapsed === 4_000) rollsOut(api, "web");
        if (elapsed === 6_000) {
          assert.deepEqual(steps, [], "no extra has taken a step");
          rollsOut(api, "api");
        }
      },
    });
    await done;
    const restarted = ["shop/Deployment/api: restarted", "shop/Deployment/web: restarted"];
    const waits = [waiting("shop/Deployment/api, shop/Deployment/web"), waiting("shop/Deployment/api")];
    assert.deepEqual(said, [WEBHOOK_GONE, ...restarted, ...waits, FREE]);
    assert.deepEqual(saidAt, [0, 2, 2, 2, 4, 6]);
    assert.deepEqual(api.writes, [
      `DELETE ${WEBHOOK_PATH}`,
      "PATCH /apis/apps/v1/namespaces/shop/deployments/api",
      `PATCH ${WEB}`,
      `DELETE ${WEBHOOK_PATH}`,
    ]);
    assert.deepEqual(
      [time.waits, steps],
      [
        [2_000, 2_000, 2_000],
        ["first", "last"],
      ],
    );
    const [patch] = api.callsOf("PATCH", WEB);
    const at = new Date(1_700_000_000_000 + 2_000).toISOString();
    const annotations = { "switchback.dev/restartedAt": at };
    const metadata = { uid: "uid-web", resourceVersion: "7" };
    assert.deepEqual(patch?.body, { metadata, spec: { template: { metadata: { annotations } } } });
  });

  for (const [what, change, message] of [
    [
      "the webhook configuration is restored",
      (api: MemoryServer) => api.add(WEBHOOK_PATH.slice(0, WEBHOOK_PATH.lastIndexOf("/")), "switchback-webhook"),
      /restored the webhook configuration/,
    ],
    ["a pod gets an address", (api: MemoryServer) => addHolder(api, "shop", "late"), /shop\/Pod\/late/],
  ] as const) {
    test(`refuses if ${what} during the steps of extras`, async (t) => {
      const api = installed();
      const run = async () => void change(api) as undefined;
      const part = { step: () => ({ plan: "It changes something.", run }) };
      await assert.rejects(runUninstall(t, api, { parts: [part] }).done, { code: "still-held", message });
    });
  }

  test("finds pods that were injected until the API servers stopped calling the webhook", async (t) => {
    const api = installed();
    const { done, said } = runUninstall(t, api, {
      onWait: (elapsed) => {
        if (elapsed === 2_000) addDeployment(api, "shop", "late");
        if (elapsed === 4_000) rollsOut(api, "late");
      },
    });
    await done;
    assert.deepEqual(said, [WEBHOOK_GONE, "shop/Deployment/late: restarted", waiting("shop/Deployment/late"), FREE]);
  });

  test("refuses for bare pods and outside restart.namespaces: no restart, and no step of an extra", async (t) => {
    const api = installed();
    addDeployment(api, "other", "web");
    addHolder(api, "shop", "bare");
    const { parts, steps } = twoSteps();
    const { done, said, time } = runUninstall(t, api, { parts });
    await assert.rejects(done, {
      code: "still-held",
      message: "2 pods hold addresses of Switchback: nothing more is removed. Recreate them and uninstall again",
    });
    assert.deepEqual(said, [
      WEBHOOK_GONE,
      "still held:",
      "  other/Deployment/web (web-old): other is not in restart.namespaces or optIn.namespaces: restart it",
      "  shop/Pod/bare: nothing recreates it: delete it",
    ]);
    assert.deepEqual(api.writes, [`DELETE ${WEBHOOK_PATH}`]);
    assert.deepEqual([time.waits, steps], [[2_000], []]);
    assert.ok(api.objects.has(ours("services/switchback-nginx")), "who still holds it is still served");
  });

  test("restarts the next workload if one cannot be restarted, and reports why", async (t) => {
    const api = installed();
    addDeployment(api, "shop", "paused", { paused: true });
    addDeployment(api, "shop", "web");
    const { done, said, time } = runUninstall(t, api, { onWait: (elapsed) => elapsed > 2_000 && rollsOut(api, "web") });
    await assert.rejects(done, { code: "still-held", message: /^1 pod holds addresses of Switchback: nothing more/ });
    assert.deepEqual(said, [
      WEBHOOK_GONE,
      "shop/Deployment/paused: spec.paused: its rollout is paused",
      "shop/Deployment/web: restarted",
      waiting("shop/Deployment/web"),
      "still held:",
      "  shop/Deployment/paused (paused-old): spec.paused: its rollout is paused",
    ]);
    // The uninstall waits only for the restarted workload.
    assert.deepEqual(time.waits, [2_000, 2_000]);
  });
});

describe("the wait for old pods", () => {
  test("ends with the timeout, reports each change of what it waits for, and refuses", async (t) => {
    const api = installed();
    for (const name of ["api", "web"]) addDeployment(api, "shop", name);
    const { done, said, saidAt, time } = runUninstall(t, api, {
      timeoutMs: 25_000,
      onWait: (elapsed) => elapsed === 16_000 && rollsOut(api, "api"),
    });
    await assert.rejects(done, { code: "still-held", message: /^1 pod holds addresses/ });
    assert.deepEqual(said.slice(3), [
      waiting("shop/Deployment/api, shop/Deployment/web"),
      waiting("shop/Deployment/web"),
      "still held:",
      "  shop/Deployment/web (web-old): it was restarted, but its old pods are still there",
    ]);
    assert.deepEqual(saidAt, [0, 2, 2, 2, 16, 26, 26]);
    // With the wait for the webhook, the 13th wait of 2 s is the first one that exceeds the timeout of 25 s.
    assert.deepEqual(time.waits, Array(13).fill(2_000));
  });

  test("does not wait for a new holder that was not restarted, but the last read finds it", async (t) => {
    const api = installed();
    addDeployment(api, "shop", "web");
    const { done, time } = runUninstall(t, api, {
      onWait: (elapsed) => {
        if (elapsed !== 4_000) return;
        rollsOut(api, "web");
        addHolder(api, "shop", "bare");
      },
    });
    await assert.rejects(done, { code: "still-held", message: /^1 pod holds/ });
    assert.deepEqual(time.waits, [2_000, 2_000]);
  });
});

/** Two extras, each with a step. The last step returns `left`. */
function twoSteps(left?: string) {
  const steps: string[] = [];
  const partOf = (name: string, result?: string): UninstallPart => ({
    step: () => ({
      plan: "It goes.",
      async run() {
        steps.push(name);
        return result;
      },
    }),
  });
  return { parts: [partOf("first"), partOf("last", left)], steps };
}

describe("the step of an extra", () => {
  const LEFT = "agents still have names";

  test("stops the uninstall if it leaves something", async (t) => {
    const { done, said } = runUninstall(t, installed(), { parts: twoSteps(LEFT).parts });
    await assert.rejects(done, { code: "still-held", message: "agents still have names. Uninstall again" });
    assert.deepEqual(said, [WEBHOOK_GONE]);
  });

  test("is not taken if an earlier step fails", async (t) => {
    const { parts, steps } = twoSteps();
    const run = async () => await Promise.reject(new Error("still there"));
    const failing = { step: () => ({ plan: "It fails.", run }) };
    const all = [...parts.slice(0, 1), failing, ...parts.slice(1)];
    await assert.rejects(runUninstall(t, installed(), { parts: all, force: true }).done, /still there/);
    assert.deepEqual(steps, ["first"]);
  });
});

describe("refusals of the API server", () => {
  test("of the webhook configuration stop the uninstall before any restart", async (t) => {
    const api = installed();
    addDeployment(api, "shop", "web");
    api.onCall = ({ path }) => (path === WEBHOOK_PATH ? refusal(403, "Refused") : undefined);
    const { done, said, time } = runUninstall(t, api, { force: true });
    await assert.rejects(done, { code: "kube-status", status: 403 });
    assert.deepEqual([said, time.waits, api.writes], [[], [], [`DELETE ${WEBHOOK_PATH}`]]);
  });

  test("of the pods stop the uninstall, because holders are unknown", async (t) => {
    const api = installed();
    api.onCall = ({ path }) => (path === PODS ? refusal(500, "Refused") : undefined);
    const { done, said } = runUninstall(t, api, { force: true });
    await assert.rejects(done, { code: "kube-status", status: 500 });
    assert.deepEqual(said, [WEBHOOK_GONE]);
  });

  for (const status of [403, 409, 500]) {
    test(`a ${status} on a restart is reported, and the other workloads are restarted`, async (t) => {
      const api = installed();
      for (const name of ["api", "web"]) addDeployment(api, "shop", name);
      api.onCall = ({ method, path }) =>
        method === "PATCH" && path.endsWith("/api") ? refusal(status, "Refused") : undefined;
      const { done, said } = runUninstall(t, api, { onWait: (elapsed) => elapsed > 2_000 && rollsOut(api, "web") });
      await assert.rejects(done, { code: "still-held" });
      assert.match(said[1] ?? "", new RegExp(`^shop/Deployment/api: .*PATCH .*${status}`));
      assert.equal(said[2], "shop/Deployment/web: restarted");
      assert.match(said.at(-1) ?? "", new RegExp(`^ {2}shop/Deployment/api \\(api-old\\): .*${status}`));
    });
  }

  test("a workload that is gone needs no restart", async (t) => {
    const api = installed();
    addDeployment(api, "shop", "web");
    api.objects.delete(WEB);
    const { done, said } = runUninstall(t, api, { onWait: (elapsed) => elapsed > 2_000 && rollsOut(api, "web") });
    await done;
    assert.deepEqual(said, [WEBHOOK_GONE, "shop/Deployment/web: restarted", waiting("shop/Deployment/web"), FREE]);
  });

  for (const [field, spec] of [
    ["hostAliases", { hostAliases: [{ ip: FRONT_IP }] }],
    ["dnsConfig", { dnsConfig: { nameservers: [FRONT_IP] } }],
  ] as const) {
    test(`a workload whose own template has the address in ${field} is not restarted: it would not help`, async (t) => {
      const api = installed();
      addDeployment(api, "shop", "web", { template: { spec } });
      const { done, said } = runUninstall(t, api);
      await assert.rejects(done, { code: "still-held" });
      const text = `its own template has them: take the ${field} out of its manifest`;
      assert.deepEqual(said.slice(1), [
        `shop/Deployment/web: ${text}`,
        "still held:",
        `  shop/Deployment/web (web-old): ${text}`,
      ]);
      assert.deepEqual(api.callsOf("PATCH", WEB), []);
    });
  }
});

describe("the plan", () => {
  test("changes nothing, and says what is wrong while pods hold addresses", async () => {
    const api = installed();
    addDeployment(api, "shop", "web");
    addHolder(api, "shop", "bare");
    const { said, problem } = await planOf(api);
    assert.equal(problem, "2 pods hold addresses of Switchback, and would connect to the next Service that gets one");
    assert.equal(said[0], `Addresses that the uninstall frees: ${FRONT_IP} (switchback-nginx)`);
    assert.deepEqual(said.slice(2, 6), [
      "2. These are restarted:",
      "     shop/Deployment/web (web-old)",
      "   These hold addresses of Switchback, and you have to recreate them:",
      "     shop/Pod/bare: nothing recreates it: delete it",
    ]);
    assert.equal(said.at(-1), `Left: what Helm or your manifests installed, and the namespace ${NAMESPACE}.`);
    assert.deepEqual(api.writes, []);
  });

  test("is fine if no pod holds an address of Switchback", async () => {
    const api = installed();
    api.add("/api/v1/namespaces/other/pods", "plain", {
      metadata: { annotations: { "switchback.dev/owned": "192.0.2.1 x1 (0123456789ab)" } },
    });
    const { said, problem } = await planOf(api);
    assert.deepEqual([said[2], problem], ["2. These are restarted: none", undefined]);
  });
});

// ReplicaSets, and the kind that is inferred for their pods: a Deployment's name is its ReplicaSet's name without the
// label pod-template-hash. And names that the API server accepts in an ownerReference: it demands only a name.
for (const [ownerKind, name, kind = ownerKind] of [
  ["ReplicaSet", "..-5d4f6"],
  ["ReplicaSet", "-5d4f6"],
  ["ReplicaSet", "web/scale-5d4f6"],
  ["ReplicaSet", "web--5d4f6", "Deployment"],
  ...["..", ".", "web/scale", "web%2fscale", "a\u001b[2J\nno pod holds an address", "x".repeat(70_000)].flatMap(
    (name) => [["Deployment", name] as const, ["StatefulSet", name] as const],
  ),
] as const) {
  test(`a pod of a ${ownerKind} ${JSON.stringify(name).slice(0, 40)} is reported, and others are freed`, async (t) => {
    const api = installed();
    addHolder(api, "shop", "odd", [ownerKind, name]);
    addDeployment(api, "shop", "web");
    const { said, problem } = await planOf(api);
    assert.match(problem ?? "", /^2 pods hold addresses/);
    const run = runUninstall(t, api, { timeoutMs: 1 });
    await assert.rejects(run.done, { code: "still-held" });
    const patched = api.writes.filter((line) => line.startsWith("PATCH"));
    assert.deepEqual(patched, [`PATCH ${WEB}`]);
    const isOdd = (line: string) => line.includes(`/${kind}/`) && line.endsWith("is not restarted: delete its pods");
    assert.deepEqual([said.some(isOdd), run.said.some(isOdd)], [true, true]);
  });
}
