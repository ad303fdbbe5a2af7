import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, it } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { aliasesText, hasName, kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { type Following, startFollowing } from "#test/integration/following.ts";
import type { Kubelet } from "#test/integration/kubelet.ts";
import { ingress, workload } from "#test/integration/objects.ts";
import { type System, until } from "#test/integration/system.ts";
import type { Replica } from "#test/integration/system-options.ts";
import { agentLease } from "./agents.ts";

// The API server is away for a minute: much longer than a leader keeps its Lease, and than an agent may be silent
// here.

const NS = "away";
const AWAY_MS = 60_000;
const cleanups: Array<() => void> = [];
const files = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
let system: System;
let kubelet: Kubelet;
let follow: Following;
let agent: Replica;

before(async () => {
  ({ system, kubelet, follow } = await startFollowing(NS, {
    controllers: 2,
    values: {
      agent: { enabled: true },
      config: {
        controller: { leaseSeconds: 4 },
        restart: { namespaces: [NS], minIntervalSeconds: 1 },
        pods: { agentSilenceSeconds: 45 },
      },
    },
  }));
  kubelet.files = files;
  agent = await system.startAgent(files.root);
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
  for (const done of cleanups) done();
});

const hasIn = (path: string, name: string) => hasName(readFileSync(path, "latin1"), name);

it("no pod with its names is restarted, the agent's writes stay, and everything catches up", async () => {
  await system.apply(workload("Deployment", "restarted", NS));
  const template = { annotations: { "switchback.dev/on-change": "live" } };
  await system.apply(workload("Deployment", "live", NS, { template }));
  for (const name of ["restarted", "live"]) await follow.rolledOut("Deployment", name);
  // The live pod was created with an older revision: only the agent's Lease shows that it is in step.
  await follow.addName("second.example.com");
  const [live] = await follow.pods("live");
  assert.ok(live);
  const path = files.path(live.metadata.uid);
  await until("the live pod's file", () => hasIn(path, "second.example.com"));
  await until("a restart", () => follow.haveName("restarted", "second.example.com"));
  for (const name of ["restarted", "live"]) await follow.codeIs(name, "in-step");
  await until("the agent's Lease", async () => {
    const { annotations } = (await agentLease(system)).metadata;
    return annotations?.["switchback.dev/revision"] === (await system.map()).revision;
  });

  await system.apply(ingress("third", ["third.example.com"]));
  await until("its publication", async () => (await system.publishedNames()).has("third.example.com"));
  await system.cluster.stopApiServer("SIGKILL");
  const away = performance.now();
  await delay(5_000);
  const text = readFileSync(path, "latin1");
  files.write(live.metadata.uid, aliasesText(live.spec.hostAliases));
  await until("the block to be back", () => readFileSync(path, "latin1") === text);
  await delay(AWAY_MS - (performance.now() - away));
  assert.equal(readFileSync(path, "latin1"), text);
  for (const { page, process } of [...system.controllers, ...system.webhooks]) {
    assert.deepEqual([process.exited, (await page("/healthz")).status], [undefined, 200]);
  }

  // The agent starts last: the leader is back, and has not heard of the agent for a minute.
  await agent.process.stop();
  await system.cluster.startApiServer();
  await system.leader();
  await delay(5_000);
  agent = await system.startAgent(files.root);
  // The real controller-manager needs up to another minute.
  await until("the restart of who lacks a name", () => follow.haveName("restarted", "third.example.com"), 180_000);
  assert.equal(await follow.changes("live"), 0);
  await until("the live pod's file", () => hasIn(path, "third.example.com"), 60_000);
  for (const name of ["restarted", "live"]) await follow.codeIs(name, "in-step");
  await follow.addName("fourth.example.com");
  await until("the live pod's file", () => hasIn(path, "fourth.example.com"));
  await until("the next restart", () => follow.haveName("restarted", "fourth.example.com"));
  for (const name of ["restarted", "live"]) await follow.codeIs(name, "in-step");
  assert.deepEqual([await follow.changes("restarted"), await follow.changes("live")], [3, 0]);
});
