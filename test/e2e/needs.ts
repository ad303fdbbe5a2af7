import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { BinaryName } from "../cluster/modules.ts";
import { STACK, TWO_NODES } from "../cluster/node/layout.ts";

// What the files need: each has a line `export const needs = [...]`. A run leaves out a file if it lacks a need.

/** Every need that a run may lack, in the words for those who start a run. */
const NEEDS = {
  node: "this machine's own node, with its add-ons",
  "cert-manager": "cert-manager",
  long: "--all",
  ipv4: "a cluster with only IPv4",
  "dual-stack": "--dual-stack",
  "two-nodes": "--nodes 2",
  "network-policies": "a cluster that enforces NetworkPolicies, as with --all",
} as const;

/** Programs that only files with this need use. They are built before the time of the tests counts. */
const PROGRAMS = ["envoy-gateway", "contour", "caddy", "external-dns"] as const satisfies readonly BinaryName[];
type Program = (typeof PROGRAMS)[number];

export type Need = keyof typeof NEEDS;

const ROOT = join(import.meta.dirname, "..", "..");

/**
 * The needs of a file, from its text: an import would start its tests.
 *
 * @throws Error if the file does not have them in one line, or if one is unknown
 */
function needsOf(file: string): (Need | Program)[] {
  const [, list] = /^export const needs\b.* = (\[.*\]);$/m.exec(readFileSync(join(ROOT, file), "utf8")) ?? [];
  if (list === undefined) throw new Error(`${file}: has no line \`export const needs = [...]\``);
  const needs = JSON.parse(list) as (Need | Program)[];
  const unknown = needs.find((need) => !(need in NEEDS || isProgram(need)));
  if (unknown !== undefined) throw new Error(`${file}: needs ${unknown}, which no run knows`);
  return needs;
}

function isProgram(need: Need | Program): need is Program {
  return (PROGRAMS as readonly string[]).includes(need);
}

/** The programs that these files need. */
export function programsFor(files: readonly string[]): Program[] {
  return files.flatMap(needsOf).filter(isProgram);
}

/**
 * Why a file does not run. Undefined: it runs. `met` has the needs that the run meets, besides those of the layout. A
 * run on two nodes has only the files about two nodes.
 */
export function leftOut(file: string, met: readonly Need[]): string | undefined {
  const needs = needsOf(file);
  if (TWO_NODES && !needs.includes("two-nodes")) return "it needs one node alone";
  const all: readonly string[] = [...met, STACK, ...(TWO_NODES ? ["two-nodes"] : [])];
  const missing = needs.find((need) => !isProgram(need) && !all.includes(need)) as Need | undefined;
  return missing && `it needs ${NEEDS[missing]}`;
}
