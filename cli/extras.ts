import type { AddedChecks } from "#doctor/added-checks.ts";
import { agent } from "#extras/agent/extra.ts";
import { dashboard } from "#extras/dashboard/extra.ts";
import type { Extra, UninstallPart } from "#extras/extension-points.ts";
import { podDns } from "#extras/pod-dns/extra.ts";
import { publishers } from "#extras/publishers/extra.ts";
import type { Section } from "#lib/config/sections.ts";

/** The optional parts. */
export const EXTRAS: readonly Extra[] = [agent, dashboard, podDns, publishers];

// What they add. Each part is loaded only when a command or component needs it.

/** The sections of the configuration. */
export async function configSections(): Promise<Section[]> {
  return await partsOf(({ configSections: read }) => read?.());
}

/** The sections of the chart's values. */
export async function chartValues(): Promise<Section[]> {
  return await partsOf(({ chartValues: read }) => read?.());
}

/** The checks of the doctor, and the sections that they read. */
export async function addedChecks(): Promise<AddedChecks> {
  return { sections: await configSections(), checks: await partsOf(({ checks: read }) => read?.()) };
}

/** The steps of an uninstall. */
export async function uninstallParts(): Promise<UninstallPart[]> {
  return await partsOf(({ uninstall: read }) => read?.());
}

async function partsOf<T>(read: (extra: Extra) => Promise<T | readonly T[]> | undefined): Promise<T[]> {
  const all = await Promise.all(EXTRAS.map(async (extra) => (await read(extra)) ?? []));
  return all.flat() as T[];
}
