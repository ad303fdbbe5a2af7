import assert from "node:assert/strict";
import { test } from "node:test";
import { addDeployment, addHolder, installed, NAMESPACE } from "#test/fakes/installed.ts";
import { checkUninstall, releasePods } from "./release-pods.ts";

/**
 * ReplicaSets and the kind that is inferred for their pods. A Deployment's name is its ReplicaSet's name without the
 * label pod-template-hash.
 */
const REPLICA_SETS = [
  ["..-5d4f6", "ReplicaSet"],
  ["-5d4f6", "ReplicaSet"],
  ["web/scale-5d4f6", "ReplicaSet"],
  ["web--5d4f6", "Deployment"],
] as const;

/** Names that the API server accepts in an ownerReference: it only checks that there is one. */
const ODD_NAMES = ["..", ".", "web/scale", "web%2fscale", "a\u001b[2J\nno pod holds an address", "x".repeat(70_000)];

for (const kind of ["Deployment", "StatefulSet"]) {
  for (const name of ODD_NAMES) {
    odd(kind, name, kind);
  }
}
for (const [name, kind] of REPLICA_SETS) odd("ReplicaSet", name, kind);

function odd(ownerKind: string, name: string, kind: string): void {
  test(`a pod of a ${ownerKind} ${JSON.stringify(name).slice(0, 40)} is reported, and others are freed`, async () => {
    const api = installed();
    addHolder(api, "shop", "odd", [ownerKind, name]);
    addDeployment(api, "shop", "web");
    const lines: string[] = [];
    const options = {
      client: api.client,
      namespace: NAMESPACE,
      now: Date.now,
      say: (line: string) => void lines.push(line),
    };
    await assert.rejects(checkUninstall({ ...options, force: false, timeoutMs: 1 }), { code: "still-held" });
    await assert.rejects(releasePods({ ...options, force: false, timeoutMs: 1, settleMs: 0 }), { code: "still-held" });
    const patched = api.writes.filter((line) => line.startsWith("PATCH"));
    assert.deepEqual(patched, ["PATCH /apis/apps/v1/namespaces/shop/deployments/web"]);
    assert.ok(lines.some((line) => line.includes("shop/Deployment/web: restarted")));
    assert.ok(lines.some((line) => line.includes(`/${kind}/`) && line.endsWith("is not restarted: delete its pods")));
  });
}
