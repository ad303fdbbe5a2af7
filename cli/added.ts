import type { AddedChecks } from "#doctor/added-checks.ts";
import type { UninstallPart } from "#extras/extra.ts";
import type { Section } from "#lib/config/sections.ts";
import { EXTRAS } from "./extras.ts";

// What the extras of the list add, loaded where it is needed.

/** The sections that they add to the configuration. */
export async function configSections(): Promise<Section[]> {
  const all = await Promise.all(EXTRAS.map(async ({ configSections: read }) => (await read?.()) ?? []));
  return all.flat();
}

/** The sections that they add to the chart's values. */
export async function chartValues(): Promise<Section[]> {
  const all = await Promise.all(EXTRAS.map(async ({ chartValues: read }) => (await read?.()) ?? []));
  return all.flat();
}

export async function addedChecks(): Promise<AddedChecks> {
  const checks = await Promise.all(EXTRAS.map(async ({ checks: read }) => (await read?.()) ?? []));
  return { sections: await configSections(), checks: checks.flat() };
}

export async function uninstallParts(): Promise<UninstallPart[]> {
  const all = await Promise.all(EXTRAS.map(async ({ uninstall: read }) => (await read?.()) ?? []));
  return all.flat();
}
