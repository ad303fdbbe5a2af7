import type { Command } from "@commander-js/extra-typings";
import { CA_SECRET, TLS_SECRET } from "#certs/objects.ts";
import { TARGET_KEY } from "#hostmap/metadata-keys.ts";
import { MAP_NAME } from "#lib/documents/map-format.ts";
import { STATUS_SECRET } from "#lib/documents/status-page.ts";
import { TARGETS_NAME } from "#lib/documents/targets-format.ts";
import { hasCode, ifFound, SwitchbackError } from "#lib/errors/errors.ts";
import { METADATA_LIST } from "#lib/kube/accept.ts";
import type { KubeClient } from "#lib/kube/client.ts";
import { isInPod } from "#lib/kube/connect.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { steadyNow } from "#lib/kube/time.ts";
import type { CliContext } from "#lib/process/context.ts";
import { NOT_ENDED } from "#lib/workloads/pods.ts";
import { waitForRestart } from "#lib/workloads/restart.ts";
import { workloadPath } from "#lib/workloads/workload-kinds.ts";
import { agree } from "./ask.ts";
import { type Definition, durationSeconds, type FlagsOf, installationOptions } from "./command.ts";
import { uninstallParts } from "./extras.ts";
import { releasePods, showPlan, type UninstallOptions, wasDeleted } from "./uninstall/release-pods.ts";
import { withClient } from "./with-client.ts";

function withOptions(command: Command) {
  return installationOptions(command)
    .option("--check", "print the plan without changing anything; fails while pods hold addresses of Switchback")
    .option("--force", "continue even if pods hold addresses of Switchback")
    .option("--timeout <time>", "time limit for all waits: seconds, or 90s, 5m, 1h", durationSeconds, 240)
    .option("--yes", "skip the confirmation prompt");
}

export type UninstallFlags = FlagsOf<typeof withOptions>;

/** Defines `switchback uninstall`. */
export function define(command: Command, { context }: Definition): void {
  withOptions(command).action((flags) => uninstall(flags, context));
}

/**
 * `switchback uninstall`: what has to happen before the manifests are deleted. The chart's hook runs it. People run it
 * for an install without Helm, or to see the plan first. Throws `declined` unless the answer is yes, and all errors of
 * `releasePods` and `removeLeftovers`.
 */
export async function uninstall(flags: UninstallFlags, context: CliContext): Promise<void> {
  const { env, stdout, progress } = context;
  const { namespace, force = false, timeout } = flags;
  const parts = await uninstallParts();
  let until = Number.POSITIVE_INFINITY;
  const timeLeft = () => Math.max(0, until - steadyNow());
  const work = async (client: KubeClient): Promise<void> => {
    const options = { client, namespace, force, timeLeft, say: stdout.line, canAsk: isInPod(env), parts };
    if (flags.check || !flags.yes) {
      const problem = await progress.during("reading who holds addresses of Switchback", () => showPlan(options));
      if (flags.check && problem !== undefined) throw new SwitchbackError("still-held", problem);
      if (flags.check) return;
      // This is not yet a failure: the uninstall restarts what it may restart.
      if (problem !== undefined) stdout.line(problem);
      await agree("uninstall now? [y/N] ");
    }
    until = steadyNow() + timeout * 1000;
    await progress.during("waiting until no pod holds an address of Switchback", () => releasePods(options));
    const leftovers = "waiting until no controller runs, and deleting what it has created";
    await progress.during(leftovers, () => removeLeftovers(options));
  };
  await withClient("uninstall", flags, context, work).catch((error: unknown) => {
    if (!hasCode(error, "still-held") || timeLeft() > 0) throw error;
    // A slow step leaves less time to the steps after it.
    throw new SwitchbackError("still-held", `${error.message}. The ${timeout} s of --timeout are over`);
  });
}

interface Named {
  readonly metadata: { readonly name: string };
}

/** The Deployments that run the controller, in either profile. */
const CONTROLLERS = ["switchback-controller", "switchback-all"];
const CONTROLLER_PODS = "app.kubernetes.io/name=switchback,app.kubernetes.io/component in (controller,all)";
/**
 * The CA that cert-manager keeps for the chart's Certificates: it does not delete the Secrets of deleted
 * Certificates.
 */
const CERT_MANAGER_CA = "switchback-cert-manager-ca";

/**
 * Deletes the objects that were created at run time, and are in no chart and no manifest: front Services, the map,
 * the extras' ConfigMaps, Secrets and the election's Lease. First stops the controller, which would recreate them.
 * Throws `still-held` if one still runs when no time is left.
 */
async function removeLeftovers(options: UninstallOptions): Promise<void> {
  const { client, namespace, say, timeLeft, parts } = options;
  for (const name of CONTROLLERS) {
    const scale = `${workloadPath(namespace, "Deployment", name)}/scale`;
    if (await ifFound(client.mergePatch(scale, { spec: { replicas: 0 } }))) say(`${name} has no replicas now`);
  }
  const look = async () => {
    const query = { labelSelector: CONTROLLER_PODS, fieldSelector: NOT_ENDED };
    const { items } = await client.list<Named>(corePath("pods", namespace), query);
    return { missing: items.map(({ metadata }) => metadata.name).join(", ") || undefined };
  };
  const running = await waitForRestart(look, { timeoutMs: timeLeft() });
  if (running !== undefined) {
    throw new SwitchbackError("still-held", `a controller still runs, and would recreate what is deleted: ${running}`);
  }
  const accept = { accept: METADATA_LIST };
  const fronts = await client.list<Named>(corePath("services", namespace), { labelSelector: TARGET_KEY }, accept);
  const added = await Promise.all(parts.map(async ({ configMaps }) => (await configMaps?.(client, namespace)) ?? []));
  const lease = { group: "coordination.k8s.io", version: "v1", resource: "leases", namespace };
  const paths = [
    ...fronts.items.map(({ metadata }) => corePath("services", namespace, metadata.name)),
    ...[...added.flat(), MAP_NAME, TARGETS_NAME].map((name) => corePath("configmaps", namespace, name)),
    ...[CA_SECRET, TLS_SECRET, CERT_MANAGER_CA, STATUS_SECRET].map((name) => corePath("secrets", namespace, name)),
    resourcePath({ ...lease, name: "switchback-controller" }),
  ];
  for (const path of paths) {
    if (await wasDeleted(client, path)) say(`deleted ${path.split("/").slice(-2).join("/")}`);
  }
}
