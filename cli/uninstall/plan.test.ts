import assert from "node:assert/strict";
import { test } from "node:test";
import type { AddressHolder } from "./address-holders.ts";
import { planUninstall } from "./plan.ts";
import { describePlan } from "./report.ts";

const INSTALLATION = {
  addresses: new Map([
    ["198.51.100.9", "switchback-a"],
    ["198.51.100.10", "switchback-b"],
  ]),
  restartNamespaces: new Set(["shop"]),
  lastSteps: [{ plan: "Something goes.", run: async () => undefined }],
  sections: {},
};
const HELD = ["198.51.100.9"];

function holder(kind: string, namespace: string, addresses: readonly string[], pods = ["p"]): AddressHolder {
  return { namespace, kind, name: "n", restartable: kind === "Deployment", pods, addresses };
}

const restarted = holder("Deployment", "shop", HELD, ["a", "b", "c", "d", "e"]);
const renamed = holder("Deployment", "shop", [], ["a", "b", "c", "d", "e", "f"]);
const elsewhere = holder("Deployment", "other", HELD);
const job = holder("Job", "shop", HELD);
const bare = holder("Pod", "shop", HELD);
const harmless = [holder("Deployment", "other", []), holder("Job", "shop", []), holder("Pod", "shop", [])];
const ALL = [restarted, renamed, elsewhere, job, bare, ...harmless];

test("restarts what it may restart; a person has to recreate the others that hold addresses", () => {
  assert.deepEqual(planUninstall(ALL, INSTALLATION), {
    restart: [restarted, renamed],
    stuck: [
      {
        holder: elsewhere,
        reason: {
          code: "restart-not-permitted",
          text: "other is not in restart.namespaces or optIn.namespaces: restart it",
        },
      },
      { holder: job, reason: { code: "not-restartable", text: "a Job is not restarted: delete its pods" } },
      { holder: bare, reason: { code: "not-restartable", text: "nothing recreates it: delete it" } },
    ],
    harmless,
  });
});

test("the plan lists in order what is done, to which pods, and what is left", () => {
  assert.deepEqual(describePlan(planUninstall(ALL, INSTALLATION), INSTALLATION, "ours"), [
    "Addresses that the uninstall frees: 198.51.100.9 (switchback-a), 198.51.100.10 (switchback-b)",
    "1. The webhook configuration switchback-webhook is deleted: new pods are no longer injected.",
    "2. These are restarted:",
    "     shop/Deployment/n (a, b, c, d, e)",
    "     shop/Deployment/n (a, b, c, d, e, and 1 more)",
    "   These hold addresses of Switchback, and you have to recreate them:",
    "     other/Deployment/n (p): other is not in restart.namespaces or optIn.namespaces: restart it",
    "     shop/Job/n (p): a Job is not restarted: delete its pods",
    "     shop/Pod/n: nothing recreates it: delete it",
    "   These keep names that have addresses of an ingress controller itself:",
    "     other/Deployment/n (p)",
    "     shop/Job/n (p)",
    "     shop/Pod/n",
    "3. Something goes.",
    "4. Controller, webhook and proxy, the front Services, the map, the certificates and the Lease are deleted.",
    "Left: the namespace ours.",
  ]);
  const nothing = describePlan(planUninstall([], INSTALLATION), { ...INSTALLATION, addresses: new Map() }, "ours");
  assert.deepEqual(nothing.slice(0, 4), [
    "Addresses that the uninstall frees: none",
    "1. The webhook configuration switchback-webhook is deleted: new pods are no longer injected.",
    "2. These are restarted: none",
    "3. Something goes.",
  ]);
});
