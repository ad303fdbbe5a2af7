import assert from "node:assert/strict";
import { type PublishedTargets, parseTargets } from "#lib/documents/targets-format.ts";
import { NAMESPACE, type System } from "./system.ts";

const READ = ["-n", NAMESPACE, "get", "cm", "switchback-targets"];

/** The targets that the controller publishes for the proxies. Throws if they are missing or do not parse. */
export async function publishedTargets(system: System): Promise<PublishedTargets> {
  const { data } = await system.json<{ data: Record<string, string> }>(...READ);
  const parsed = parseTargets(data["targets.json"] ?? "");
  assert.ok(!("code" in parsed), JSON.stringify(parsed));
  return parsed;
}
