import type { AddedChecks } from "#doctor/added-checks.ts";
import type { Extra, UninstallPart } from "#extras/extra.ts";
import type { Section } from "#lib/config/sections.ts";
import { EXTRAS } from "./extras.ts";

// What the extras of the list add, loaded where it is needed.

/** The sections that they add to the configuration. */
export async function configSections(): Promise<Section[]> {
  return await partsOf(({ configSections: read }) => read?.());
}

/** The sections that they add to the chart's values. */
export async function chartValues(): Promise<Section[]> {
  return await partsOf(({ chartValues: read }) => read?.());
}

export async function addedChecks(): Promise<AddedChecks> {
  return { sections: await configSections(), checks: await partsOf(({ checks: read }) => read?.()) };
}

export async function uninstallParts(): Promise<UninstallPart[]> {
  return await partsOf(({ uninstall: read }) => read?.());
}

/** What each extra of the list adds at one extension point. */
async function partsOf<T>(read: (extra: Extra) => Promise<T | readonly T[]> | undefined): Promise<T[]> {
  const all = await Promise.all(EXTRAS.map(async (extra) => (await read(extra)) ?? []));
  return all.flat() as T[];
}
