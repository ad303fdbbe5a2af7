import { dirname } from "node:path";
import type { Import } from "./imports.ts";

/** The house from the top floor down; a room imports only rooms below its own floor. docs/architecture.md says what each is. */
export const FLOORS: readonly (readonly string[])[] = [
  ["tools/bench", "tools/release"],
  ["cli"],
  ["extras/agent", "extras/dashboard", "extras/pod-dns", "extras/publishers"],
  ["doctor"],
  ["controller", "webhook"],
  ["certs", "manifests", "proxy"],
  ["lib/documents", "lib/workloads"],
  ["lib/kube"],
  ["lib/http"],
  ["lib/config", "lib/telemetry"],
  ["lib/errors", "lib/hostmap"],
];

/** Rooms inside a room, from the top down, under the same rule; files of the outer room itself are above them. */
export const INNER_FLOORS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  controller: [["dnscheck"], ["targets"], ["sources", "rollout"]],
};

/** The benches start the clusters and fakes of the tests; the release uses their built tools. None is in the image. */
const mayImportTests = (room: string) => room.startsWith("tools/");

/** Imports that go up, to the same floor, or to a folder that is no room; each as a line for a person. */
export function floorFaults(imports: readonly Import[]): string[] {
  return imports.flatMap(({ from, to }) => {
    const [room, other] = [roomOf(from), roomOf(to)];
    if (other === "test" && mayImportTests(room)) return [];
    if (room === other) return innerFault(from, to, room);
    const [mine, theirs] = [floorOf(FLOORS, room), floorOf(FLOORS, other)];
    if (mine === -1 || theirs === -1)
      return [`${from} -> ${to}: ${mine === -1 ? room : other} is no room of the house`];
    return theirs > mine ? [] : [`${from} -> ${to}: ${other} is not below ${room}`];
  });
}

function innerFault(from: string, to: string, room: string): string[] {
  const floors = INNER_FLOORS[room];
  if (floors === undefined) return [];
  const inner = (file: string) => {
    const folder = file.split("/").slice(1, -1)[0];
    return folder === undefined ? -1 : floorOf(floors, folder);
  };
  const folderOf = (file: string) => file.split("/").slice(0, -1)[1];
  if (folderOf(from) === folderOf(to)) return [];
  return inner(to) > inner(from) ? [] : [`${from} -> ${to}: ${dirname(to)} is not below ${dirname(from)}`];
}

/** Cycles among files by imports that exist when the code runs, each as `a -> b -> a`. */
export function valueCycles(imports: readonly Import[]): string[] {
  const graph = Map.groupBy(
    imports.filter(({ kind }) => kind === "value"),
    ({ from }) => from,
  );
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (file: string, path: readonly string[]): void => {
    const start = path.indexOf(file);
    if (start !== -1) cycles.push([...path.slice(start), file].join(" -> "));
    if (start !== -1 || done.has(file)) return;
    for (const { to } of graph.get(file) ?? []) visit(to, [...path, file]);
    done.add(file);
  };
  for (const file of graph.keys()) visit(file, []);
  return cycles;
}

/** Groups of sibling folders that import each other in a circle, each as `a, b`. A folder and those inside it are one room. */
export function folderCycles(imports: readonly Import[]): string[] {
  const graph = new Map<string, Set<string>>();
  for (const { from, to } of imports) {
    const [one, other] = [dirname(from), dirname(to)];
    if (one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)) continue;
    graph.set(one, (graph.get(one) ?? new Set()).add(other));
  }
  const reach = new Map([...graph.keys()].map((folder) => [folder, reachable(graph, folder)]));
  const groups = [...reach]
    .filter(([folder, reached]) => reached.has(folder))
    .map(([folder, reached]) =>
      [...reached]
        .filter((other) => reach.get(other)?.has(folder))
        .sort()
        .join(", "),
    );
  return [...new Set(groups)];
}

function reachable(graph: ReadonlyMap<string, ReadonlySet<string>>, start: string): Set<string> {
  const reached = new Set<string>();
  const open = [start];
  for (let folder = open.pop(); folder !== undefined; folder = open.pop()) {
    for (const next of graph.get(folder) ?? []) {
      if (reached.has(next)) continue;
      reached.add(next);
      open.push(next);
    }
  }
  return reached;
}

/** The room that a file is in: `webhook`, `lib/kube`. */
export function roomOf(file: string): string {
  const [top = "", inner] = file.split("/");
  return ["lib", "extras", "tools"].includes(top) && inner !== undefined ? `${top}/${inner}` : top;
}

function floorOf(floors: readonly (readonly string[])[], room: string): number {
  return floors.findIndex((rooms) => rooms.includes(room));
}
