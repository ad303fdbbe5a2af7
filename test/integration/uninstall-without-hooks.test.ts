import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, it } from "node:test";
import { NAMESPACE, type System, startSystem, until } from "./system.ts";

// An uninstall whose hook cannot start, because no node runs here. The test runs the commands that the notes and
// docs/uninstalling.md give for this case: to stay, and to uninstall without the hook.

const PAGE = readFileSync(new URL("../../docs/uninstalling.md", import.meta.url), "utf8");
const KINDS =
  "deployments,services,configmaps,secrets,leases,serviceaccounts,roles,rolebindings,jobs,pods,clusterroles,clusterrolebindings";

const WEBHOOK = "mutatingwebhookconfigurations/switchback-webhook";

let system: System;
before(async () => {
  system = await startSystem({});
});
after(() => system?.stop());

/** The commands of a text that begin with `program`. */
const commands = (text: string, program: string): string[][] =>
  [...text.matchAll(new RegExp(`^ +${program} (.*)$`, "gm"))].map(([, args = ""]) => args.split(" "));

async function left(): Promise<string[]> {
  const names = (await system.kubectl("get", KINDS, "-n", NAMESPACE, "-o", "name")).split("\n");
  return names.filter((name) => name.includes("switchback"));
}

it("an uninstall whose hook cannot start continues with the commands of the notes, and leaves nothing", async () => {
  const helm = (...args: string[]) => system.cluster.tool("helm", args, {});
  const notes = (await helm("get", "notes", "switchback", "-n", NAMESPACE)).stdout;
  const failed = await helm("uninstall", "switchback", "--namespace", NAMESPACE, "--timeout", "5s");
  assert.equal(failed.code, 1, failed.stdout);
  assert.ok((await left()).includes("deployment.apps/switchback-proxy"), "nothing was deleted");
  await system.kubectl("delete", WEBHOOK);
  const [stay = []] = commands(PAGE, "helm").filter(([word]) => word === "rollback");
  const stayed = await helm(...stay.map((arg) => (arg === "REVISION" ? "1" : arg)));
  assert.equal(stayed.code, 0, stayed.stderr);
  assert.match(await system.kubectl("get", WEBHOOK, "-o", "name"), /switchback-webhook/);
  const ours = commands(notes, "switchback").filter(([word, flag]) => word === "uninstall" && flag !== "--check");
  const [helms] = commands(notes, "helm");
  assert.deepEqual([ours.length, helms?.at(-1)], [1, "--no-hooks"]);
  assert.ok(
    commands(PAGE, "switchback").some((args) => args.join() === ours[0]?.join()),
    "the page says the same",
  );
  // The command stops the controller's pods. The processes of this test are not in pods.
  for (const controller of [...system.controllers]) await system.end(controller);
  const released = await system.cli([...(ours[0] ?? []), "--yes"]);
  assert.equal(released.code, 0, released.stderr);
  assert.ok(!(await left()).includes("service/switchback-ingress-nginx"), "what the controller has created is gone");
  const uninstalled = await helm(...(helms ?? []));
  assert.equal(uninstalled.code, 0, uninstalled.stderr);
  for (const webhook of [...system.webhooks]) await system.end(webhook);
  const jobs = commands(PAGE, "kubectl").filter((args) => args.includes("job"));
  assert.equal(jobs.length, 1);
  for (const args of jobs) await system.kubectl(...args);
  await until("nothing to be left", async () => (await left()).length === 0);
});
