import { after, before, it } from "node:test";
import { Following } from "./following.ts";
import { Kubelet } from "./kubelet.ts";
import { namespaceYaml, workload } from "./objects.ts";
import { type System, startSystem } from "./system.ts";

// A namespace of config.restart.namespaces that is created after the install, so that the chart could not create its
// Roles.

const LATE = "late";
const values = {
  config: {
    restart: { namespaces: [LATE], minIntervalSeconds: 1 },
    policy: { verifyDns: "off" },
  },
};
let system: System;
let kubelet: Kubelet;

before(async () => {
  system = await startSystem({ values });
  await system.showWebhooks();
});
after(async () => {
  await kubelet?.stop();
  await system?.stop();
});

it("its workloads are reported as not restartable, and followed by the same controller after an upgrade", async () => {
  const follow = new Following(system, LATE);
  await system.apply(namespaceYaml(LATE, "enabled"));
  kubelet = new Kubelet(system, LATE);
  await follow.addName("first.example.com");
  await system.apply(workload("Deployment", "web", LATE));
  await follow.rolledOut("Deployment", "web");
  await follow.addName("second.example.com");
  await follow.codeIs("web", "restart-rights-missing");
  await system.install(values);
  await follow.codeIs("web", "in-step");
});
