import { Following } from "../test/integration/following.ts";
import { Kubelet } from "../test/integration/kubelet.ts";
import { ingress, mapped, namespaceYaml, workload } from "../test/integration/objects.ts";
import { startSystem, until } from "../test/integration/system.ts";
import { percentile, progress, type Reporter } from "./report.ts";

const NAMESPACE = "followed";
/** How long the Deployment's container takes to start. */
const START_MS = 2_000;
const GOAL_SECONDS = 15;

/**
 * From an Ingress to a ready pod with its name, by a restart with the default settings: a real API server and Deployment controller,
 * and a kubelet that is played, whose containers take two seconds to start.
 */
export async function measureRestarts(rounds: number, report: Reporter): Promise<void> {
  progress("starting a control plane, the controller and the webhook");
  const values = { config: { restart: { namespaces: [NAMESPACE] } } };
  const system = await startSystem({ before: namespaceYaml(NAMESPACE, "enabled"), values });
  const kubelet = new Kubelet(system, NAMESPACE);
  kubelet.startMs = START_MS;
  const following = new Following(system, NAMESPACE);
  const seconds: number[] = [];
  try {
    await system.showWebhooks();
    for (let round = 0; round < rounds; round++) {
      progress(`restart ${round + 1} of ${rounds}`);
      const [name, host] = [`web-${round}`, `web-${round}.example.com`];
      // Each round has a Deployment of its own: the interval between two restarts of one is not what is measured.
      await system.apply(workload("Deployment", name, NAMESPACE));
      await following.rolledOut("Deployment", name);
      await following.codeIs(name, "in-step");
      const created = performance.now();
      await system.apply(ingress(name, [host]));
      await until(
        `${name} to follow`,
        async () => {
          const [pod, ...others] = await following.pods(name);
          return others.length === 0 && pod?.status.phase === "Running" && mapped(pod).includes(host);
        },
        60_000,
      );
      seconds.push((performance.now() - created) / 1000);
      await system.kubectl("-n", NAMESPACE, "delete", "deployment", name);
    }
  } finally {
    await kubelet.stop();
    await system.stop();
  }
  report.section({ restarts: rounds });
  report.figure({ name: "ingress-to-ready-pod-p50", value: percentile(seconds, 0.5), unit: "s" });
  report.figure({ name: "ingress-to-ready-pod-max", value: Math.max(...seconds), unit: "s", goal: GOAL_SECONDS });
}
