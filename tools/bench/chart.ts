import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { treeFile } from "./tree-file.ts";

/** This checkout. */
export const ROOT = join(import.meta.dirname, "..", "..");

/** A process of the chart; `all` is the process of `profile: small`. */
export type Component = "controller" | "webhook" | "proxy" | "agent" | "dns" | "all";

/** Same values as in the chart's _helpers.tpl. */
const MALLOC_ENV = { MALLOC_ARENA_MAX: "1", MALLOC_TRIM_THRESHOLD_: "524288" };

/** The Node flags that the chart of a checkout gives a component. */
export function chartFlags(component: Component, tree = ROOT): string[] {
  const values = parse(readFileSync(join(tree, "manifests", "chart", "values.yaml"), "utf8"));
  return values[component === "dns" ? "podDns" : component].nodeFlags;
}

/**
 * The environment for the C library that the chart of a checkout gives a component. An earlier checkout sets it only
 * for the agent.
 */
export function chartEnv(component: Component, tree = ROOT): Partial<typeof MALLOC_ENV> {
  const templates = "manifests/chart/templates";
  const files =
    component === "agent" ? ["agent/agent.yaml", "extras/agent/agent.yaml", "agent.yaml"] : ["_component.tpl"];
  const [file = "", ...earlier] = files.map((name) => `${templates}/${name}`);
  const template = readFileSync(treeFile(tree, file, ...earlier), "utf8");
  return /mallocEnv|MALLOC_ARENA_MAX/.test(template) ? MALLOC_ENV : {};
}
