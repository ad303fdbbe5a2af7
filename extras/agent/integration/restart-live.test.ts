import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { hasName, kubeletFiles } from "#test/fakes/kubelet-files.ts";
import { enoughToRestart, type Following, startFollowing } from "#test/integration/following.ts";
import type { Kubelet } from "#test/integration/kubelet.ts";
import { workload } from "#test/integration/objects.ts";
import { type System, until } from "#test/integration/system.ts";
import type { Replica } from "#test/integration/system-options.ts";
import { agentLease } from "./agents.ts";

// The controller's side of `live`, in a namespace where it may restart, on a real API server. The agent works, is
// replaced or is dead.

const NS = "lively";
/** Far more than it takes to replace an agent. */
const SILENCE_SECONDS = 45;
const cleanups: Array<() => void> = [];
const files = kubeletFiles({ after: (done) => cleanups.push(done as () => void) });
let system: System;
let kubelet: Kubelet;
let follow: Following;
let agent: Replica | undefined;

before(async () => {
  ({ system, kubelet, follow } = await startFollowing(NS, {
    values: {
      agent: { enabled: true },
      config: {
        restart: { namespaces: [NS], minIntervalSeconds: 1 },
        pods: { agentSilenceSeconds: SILENCE_SECONDS },
      },
    },
  }));
  kubelet.files = files;
  await system.kubectl("annotate", "namespace", NS, "switchback.dev/on-change=live");
  agent = await system.startAgent(files.root);
  await system.apply(workload("Deployment", "web", NS));
  await follow.rolledOut("Deployment", "web");
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
  for (const done of cleanups) done();
});

async function fileHas(name: string): Promise<boolean> {
  const [pod] = await follow.pods("web");
  const path = files.path(pod?.metadata.uid ?? "none");
  return existsSync(path) && hasName(readFileSync(path, "latin1"), name);
}

describe("a workload that follows live, in a listed namespace", () => {
  it("is not restarted while the agent works", async () => {
    await follow.addName("second.example.com");
    await until("the name in the pod's file", () => fileHas("second.example.com"));
    await follow.codeIs("web", "in-step");
    await enoughToRestart();
    await follow.codeIs("web", "in-step");
    assert.deepEqual([(await follow.statusOf("web"))?.mode, await follow.changes("web")], ["live", 0]);
  });

  it("is not restarted if the map changes while the agent is replaced", async () => {
    await agent?.process.stop();
    agent = undefined;
    await follow.addName("third.example.com");
    await follow.codeIs("web", "in-step"); // Its agent counts as alive until it was silent for long enough.
    await enoughToRestart();
    assert.equal(await fileHas("third.example.com"), false);
    agent = await system.startAgent(files.root);
    await until("the name in the pod's file", () => fileHas("third.example.com"));
    await follow.codeIs("web", "in-step");
    await enoughToRestart();
    assert.equal(await follow.changes("web"), 0);
  });

  it("is restarted once, and only after the agent was silent for long enough", async () => {
    await agent?.process.stop();
    agent = undefined;
    const heard = Date.parse((await agentLease(system)).spec.renewTime);
    await follow.addName("fourth.example.com");
    await follow.codeIs("web", "in-step"); // Its agent counts as alive until it was silent for long enough.
    await until("a restart", async () => (await follow.changes("web")) > 0, (SILENCE_SECONDS + 60) * 1_000);
    await follow.rolledOut("Deployment", "web");
    await follow.codeIs("web", "in-step");
    const { lastRestart = "never" } = (await follow.statusOf("web")) ?? {};
    assert.ok(Date.parse(lastRestart) - heard >= SILENCE_SECONDS * 1_000, `${lastRestart}, heard ${heard}`);
    assert.ok(await fileHas("fourth.example.com"), "its new pod was injected");
    await enoughToRestart();
    assert.equal(await follow.changes("web"), 1);
  });

  it("is left to the agent again when there is one", async () => {
    agent = await system.startAgent(files.root);
    await until("the agent to be heard of", async () => {
      const { metadata } = await agentLease(system);
      return metadata.annotations?.["switchback.dev/revision"] === (await system.map()).revision;
    });
    await follow.addName("fifth.example.com");
    await until("the name in the pod's file", () => fileHas("fifth.example.com"));
    await follow.codeIs("web", "in-step");
    await enoughToRestart();
    assert.equal(await follow.changes("web"), 1);
  });
});
