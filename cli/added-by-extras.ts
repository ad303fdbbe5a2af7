import type { PodUpdater } from "#controller/rollout/pod-updater.ts";
import type { AddedChecks } from "#doctor/added-checks.ts";
import type { Extra, UninstallPart } from "#extras/extension-points.ts";
import type { Config } from "#lib/config/schema.ts";
import type { Section } from "#lib/config/sections.ts";
import type { Logger } from "#lib/telemetry/log.ts";
import type { Delivery } from "#webhook/delivery.ts";
import { EXTRAS } from "./extras.ts";

// What the extras add, each part loaded only when a command or component needs it.

/** The sections that the extras add to the configuration. */
export async function configSections(): Promise<Section[]> {
  return await partsOf(({ configSections: read }) => read?.());
}

/** The sections that the extras add to the chart's values. */
export async function chartValues(): Promise<Section[]> {
  return await partsOf(({ chartValues: read }) => read?.());
}

export async function addedChecks(): Promise<AddedChecks> {
  return { sections: await configSections(), checks: await partsOf(({ checks: read }) => read?.()) };
}

/** Workloads that the extras run outside Switchback's namespace. */
export async function workloadsElsewhere(sections: Parameters<NonNullable<Extra["workloads"]>>[0]) {
  return await partsOf(({ workloads }) => workloads?.(sections));
}

export async function uninstallParts(): Promise<UninstallPart[]> {
  return await partsOf(({ uninstall: read }) => read?.());
}

/** Updaters of the extras, which bring running pods up to date without a restart. */
export async function podUpdaters(config: Config): Promise<PodUpdater[]> {
  return await partsOf(({ podUpdater }) => podUpdater?.(config));
}

/** The pods that get every name below a wildcard, as text; undefined if no pods do. */
export async function wildcardPodsOf(config: Config): Promise<string | undefined> {
  const [pods] = await partsOf(({ wildcardPods }) => wildcardPods?.(config));
  return pods;
}

/** Starts all ways other than hostAliases by which pods can get the names. */
export async function startDeliveries(config: Config, log: Logger): Promise<readonly Delivery[]> {
  return await partsOf(({ startDelivery }) => startDelivery?.(config, log));
}

/** Collects what each extra adds at one extension point. */
async function partsOf<T>(read: (extra: Extra) => Promise<T | readonly T[] | undefined> | undefined): Promise<T[]> {
  const all = await Promise.all(EXTRAS.map(async (extra) => (await read(extra)) ?? []));
  return all.flat() as T[];
}
