import { type FSWatcher, watch } from "node:fs";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { describeError } from "#lib/errors/errors.ts";
import { groupOf } from "#lib/kube/paths.ts";
import { GatewayFiles } from "./gateway/files.ts";
import { claimsOfIngress, type RawIngress, viewIngress } from "./ingress-hosts.ts";
import { mapOf, textOf } from "./raw-object.ts";
import type { Source, SourceProblem, ViewSink } from "./types.ts";
import { validateObject } from "./validate-object.ts";
import { type FileObject, isIngressKind, parseYamlFile } from "./yaml-file.ts";

/** Delay after the last event of a burst of writes (an editor, a checkout), so that it causes only one read. */
const SETTLE_MS = 50;
/**
 * Some file systems lose events (network shares, some container mounts), so the directory is also polled at this
 * interval.
 */
const SWEEP_MS = 2_000;

interface ReadFile {
  /** Size and modification time of the file when it was read; it is read again if they change. */
  readonly stamp: string;
  readonly objects: readonly FileObject[];
  readonly problems: readonly SourceProblem[];
}

/** A source for YAML files, which also returns the other objects of those files (the demo's namespaces and pods). */
export interface DirectorySource extends Source {
  objects(): readonly FileObject[];
}

/**
 * Ingresses, Gateways and routes in the `.yaml` and `.yml` files of a directory, updated as files are added,
 * changed and deleted.
 */
export function directorySource(deps: {
  readonly directory: string;
  /** Poll interval without events. Only tests set it. */
  readonly sweepMs?: number;
}): DirectorySource {
  const { directory, sweepMs = SWEEP_MS } = deps;
  let files: ReadonlyMap<string, ReadFile> = new Map();
  let failure: SourceProblem | undefined;
  let synced = false;
  let stopped = false;
  let reading: Promise<void> = Promise.resolve();
  let stopWatching = () => {};
  let gateways: GatewayFiles | undefined;

  async function refresh(sink: ViewSink, onSynced: () => void): Promise<void> {
    const before = files;
    try {
      files = await scan(directory, before);
      failure = undefined;
    } catch (error) {
      // If a directory cannot be read, its content is unknown, so the last valid objects stay.
      failure = { place: directory, code: "directory-unreadable", text: describeError(error) };
      return;
    }
    if (stopped || (synced && stamps(files) === stamps(before))) return;
    emit(collect(before), collect(files), sink);
    gateways ??= new GatewayFiles(sink);
    gateways.update(collect(files));
    if (synced) return;
    synced = true;
    onSynced();
  }

  return {
    start(sink, onSynced) {
      const queue = () => {
        reading = reading.then(() => (stopped ? undefined : refresh(sink, onSynced)));
      };
      queue();
      stopWatching = watchDirectory(directory, sweepMs, queue);
    },
    state() {
      const ofFiles = [...files.values()].flatMap(({ problems }) => problems);
      const problems = [...(failure === undefined ? [] : [failure]), ...ofFiles, ...duplicates(collect(files))];
      return [{ name: `files in ${directory}`, synced, problems }];
    },
    objects: () => collect(files),
    stop: async () => {
      stopped = true;
      stopWatching();
      await reading;
    },
  };
}

/** Calls `onHint` when something may have changed. Returns a function that stops this. */
function watchDirectory(directory: string, sweepMs: number, onHint: () => void): () => void {
  const sweep = setInterval(onHint, sweepMs);
  let settle: NodeJS.Timeout | undefined;
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(directory, () => {
      clearTimeout(settle);
      settle = setTimeout(onHint, SETTLE_MS);
    });
    // A removed directory ends the watch; polling continues, and the read reports what is wrong.
    watcher.on("error", () => watcher?.close());
  } catch {
    // The directory does not exist yet: the first read reports it, and polling finds it later.
  }
  return () => {
    clearInterval(sweep);
    clearTimeout(settle);
    watcher?.close();
  };
}

async function scan(directory: string, before: ReadonlyMap<string, ReadFile>): Promise<Map<string, ReadFile>> {
  const files = new Map<string, ReadFile>();
  for (const name of (await readdir(directory)).sort()) {
    if (/\.ya?ml$/.test(name)) files.set(name, await readOne(join(directory, name), name, before.get(name)));
  }
  return files;
}

function emit(before: readonly FileObject[], after: readonly FileObject[], sink: ViewSink): void {
  const gone = new Set(before.filter(isIngress).map(objectKey));
  const defaultClass = defaultClassIn(after);
  const controllers = new Map(after.filter((one) => isIngressKind(one, "IngressClass")).map(nameAndController));
  const controllerOf = (name: string) => controllers.get(name);
  for (const object of after.filter(isIngress)) {
    gone.delete(objectKey(object));
    const view = viewIngress(object.raw as RawIngress, object.file);
    sink(objectKey(object), claimsOfIngress(view, { defaultClass, controllerOf }));
  }
  for (const key of gone) sink(key, []);
}

/** Reads a file, unless the same version was read before. If it cannot be read, the last valid objects stay. */
async function readOne(path: string, name: string, before: ReadFile | undefined): Promise<ReadFile> {
  const lastGood = before?.objects ?? [];
  try {
    const { ino, size, mtimeMs, ctimeMs } = await stat(path);
    const stamp = [ino, size, mtimeMs, ctimeMs].join(" ");
    if (before?.stamp === stamp) return before;
    const { objects, problems } = parseYamlFile(name, await readFile(path, "utf8"));
    const kept = problems.length === 0 ? objects : [...objects, ...missingFrom(objects, lastGood)];
    return { stamp, objects: kept, problems: [...problems, ...objects.flatMap(validateObject)] };
  } catch (error) {
    const problem = { place: name, code: "file-unreadable", text: describeError(error) };
    return { stamp: problem.text, objects: lastGood, problems: [problem] };
  }
}

/** Objects of the last valid version that the new version lacks. They may be in one of its broken documents. */
function missingFrom(objects: readonly FileObject[], lastGood: readonly FileObject[]): FileObject[] {
  const there = new Set(objects.map(identity));
  return lastGood.filter((object) => !there.has(identity(object)));
}

function identity(object: FileObject): string {
  return `${object.raw.kind}.${groupOf(object.raw.apiVersion)} ${objectKey(object)}`;
}

function collect(files: ReadonlyMap<string, ReadFile>): FileObject[] {
  return [...files.values()].flatMap(({ objects }) => objects);
}

/**
 * Reports objects that are defined twice. A copy with an unchanged name replaces the first one, as with `kubectl
 * apply`.
 */
function duplicates(objects: readonly FileObject[]): SourceProblem[] {
  const last = new Map(objects.map((object) => [identity(object), object]));
  return objects.flatMap((object) => {
    const other = last.get(identity(object));
    if (other === undefined || other === object) return [];
    const text = `it is defined again at ${other.place(["metadata", "name"])}, and that definition is used`;
    return [{ place: object.place(["metadata", "name"]), code: "duplicate-object", text }];
  });
}

function stamps(files: ReadonlyMap<string, ReadFile>): string {
  return [...files].map(([name, { stamp }]) => `${name} ${stamp}`).join("\n");
}

function isIngress(object: FileObject): boolean {
  return isIngressKind(object, "Ingress");
}

function objectKey({ raw }: FileObject): string {
  return `${raw.metadata.namespace ?? "default"}/${raw.metadata.name}`;
}

function nameAndController({ raw }: FileObject): readonly [name: string, controller: string | undefined] {
  return [raw.metadata.name, textOf(mapOf((raw as { spec?: unknown }).spec).controller)];
}

function defaultClassIn(objects: readonly FileObject[]): string | undefined {
  const isDefault = (object: FileObject) =>
    isIngressKind(object, "IngressClass") &&
    object.raw.metadata.annotations?.["ingressclass.kubernetes.io/is-default-class"] === "true";
  return objects.find(isDefault)?.raw.metadata.name;
}
