import type { AddedChecks } from "#doctor/added-checks.ts";
import type { UninstallPart } from "#extras/uninstall-part.ts";
import type { Section } from "#lib/config/sections.ts";

// What the optional parts add, beside their commands in `program.ts`. Each is loaded only when a command or component
// needs it.

/** The sections of the configuration. */
export async function configSections(): Promise<Section[]> {
  const { AGENT_SECTIONS } = await import("#extras/agent/config.ts");
  const { POD_DNS_SECTION } = await import("#extras/pod-dns/config.ts");
  const { PUBLISHERS_SECTION } = await import("#extras/publishers/config.ts");
  return [...AGENT_SECTIONS, POD_DNS_SECTION, PUBLISHERS_SECTION];
}

/** The checks of the doctor, and the sections that they read. */
export async function addedChecks(): Promise<AddedChecks> {
  const { AGENT_CHECK } = await import("#extras/agent/check.ts");
  const { POD_DNS_CHECK } = await import("#extras/pod-dns/check.ts");
  const { PUBLISHERS_CHECK } = await import("#extras/publishers/check.ts");
  return { sections: await configSections(), checks: [AGENT_CHECK, POD_DNS_CHECK, PUBLISHERS_CHECK] };
}

/** The parts of an uninstall. The agents' step is the last one: stopped agents do not start again by themselves. */
export async function uninstallParts(): Promise<UninstallPart[]> {
  const { AGENT_UNINSTALL } = await import("#extras/agent/leave.ts");
  const { POD_DNS_UNINSTALL } = await import("#extras/pod-dns/leave.ts");
  const { PUBLISHERS_UNINSTALL } = await import("#extras/publishers/leave.ts");
  return [POD_DNS_UNINSTALL, PUBLISHERS_UNINSTALL, AGENT_UNINSTALL];
}
