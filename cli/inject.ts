import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { ConnectFlags } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { findFiles } from "./inject/find-files.ts";
import { readHostsFile } from "./inject/hosts-file.ts";
import { type Injected, injectManifest, type Outcome } from "./inject/manifest.ts";
import { parseTemplatePath } from "./inject/pod-templates.ts";
import { joinManifests } from "./inject/print.ts";
import { readTextFile, type TextFile } from "./inject/text-file.ts";

export interface InjectFlags extends ConnectFlags {
  /** Files and directories, as arguments or with `-f`. */
  readonly filename: readonly string[];
  readonly recursive?: boolean;
  readonly hosts?: string;
  readonly templatePath?: readonly string[];
  readonly strict?: boolean;
  readonly maxNames?: number;
  readonly longLine?: boolean;
  readonly namespace: string;
}

/** Maximum number of warnings about parts of the hosts file that are left out. */
const MAX_LEFT_OUT = 10;
/** Maximum number of causes to print when no output is written. */
const MAX_CAUSES = 4;

/**
 * Prints the files with hostAliases in every pod template, and reports on standard error what was done. Throws
 * `input-invalid` for bad input, and then prints nothing on standard output. With `-R`, as with `kubectl apply -R`, a
 * bad file does not affect the others: they are printed before it throws.
 */
export async function inject(flags: InjectFlags, context: CliContext): Promise<void> {
  const { stdout, stderr } = context;
  const templatePaths = (flags.templatePath ?? []).map(parseTemplatePath);
  if (flags.filename.length === 0) {
    throw new SwitchbackError("input-invalid", "no file is given: name files or directories, or - for standard input");
  }
  const names = findFiles(flags.filename, flags.recursive ?? false);
  const { files, unread } = readFiles(names, flags.recursive ?? false);
  const warnings: string[] = [];
  const map = await readMap(flags, context, warnings);
  const options = {
    choose: createSelector(map, flags.maxNames ?? DEFAULT_MAX_NAMES),
    longLine: flags.longLine ?? false,
    templatePaths,
  };
  const manifests = files.map((file) => injectManifest(file, options));
  const outcomes = manifests.flatMap((manifest) => manifest.outcomes);
  if (outcomes.length === 0) warnings.push(`${files.map(({ name }) => name).join(", ")}: no pods or workloads found`);
  const linesOf = (wanted: (result: Outcome["result"]) => boolean) =>
    outcomes.filter(({ result }) => wanted(result)).map(describe);
  const failures = [...unread, ...linesOf((result) => result === "failed")];
  warnings.push(...linesOf((result) => result === "overlooked"));
  if (failures.length > 0 && (!flags.recursive || flags.strict)) refuse(failures, stderr);
  if (flags.strict && warnings.length > 0) {
    refuse(
      warnings.map((warning) => `--strict: ${warning}`),
      stderr,
    );
  }
  const done = linesOf((result) => result === "injected" || result === "skipped");
  const lines = [...warnings.map((warning) => `warning: ${warning}`), ...done, ...failures.slice(0, -1)];
  for (const line of lines) stderr.line(line);
  const isWhole = (manifest: Injected) => manifest.outcomes.every(({ result }) => result !== "failed");
  const whole = manifests.filter(isWhole);
  stdout.write(joinManifests(whole.map(({ output }) => output)));
  if (failures.length === 0) return;
  const count = `${names.length - whole.length} of ${names.length} files are not in the output`;
  throw new SwitchbackError("input-invalid", `${count}: ${failures.at(-1)}`);
}

/** Prints the first causes, and throws the last one of them. */
function refuse(causes: readonly string[], stderr: CliContext["stderr"]): never {
  const shown = causes.slice(0, MAX_CAUSES);
  const last = shown.pop();
  for (const line of shown) stderr.line(line);
  const more = causes.length - MAX_CAUSES;
  const others = more > 0 ? ` (and ${more} more)` : "";
  throw new SwitchbackError("input-invalid", `${last}; no output was written${others}`);
}

/**
 * Reads files one by one. With `-R`, as with kubectl, it continues after an unreadable file: `unread` has the
 * reasons.
 */
function readFiles(names: readonly string[], recursive: boolean): { files: TextFile[]; unread: string[] } {
  const [files, unread]: [TextFile[], string[]] = [[], []];
  for (const name of names) {
    try {
      files.push(readTextFile(name));
    } catch (error) {
      if (!recursive || !(error instanceof SwitchbackError)) throw error;
      unread.push(error.message);
    }
  }
  return { files, unread };
}

async function readMap(flags: InjectFlags, { env, progress }: CliContext, warnings: string[]): Promise<PublishedMap> {
  // Imported only here: the API client is half of what this command would load.
  if (flags.hosts === undefined) {
    const { readLiveMap } = await import("./inject/live-map.ts");
    return await progress.during("reading the map", () => readLiveMap(flags, env));
  }
  const file = readTextFile(flags.hosts);
  const { map, leftOut } = readHostsFile(file);
  for (const { line, reason } of leftOut.slice(0, MAX_LEFT_OUT)) {
    warnings.push(`${file.name}:${line}: left out (${reason.code}): ${reason.text}`);
  }
  const more = leftOut.length - MAX_LEFT_OUT;
  if (more > 0) warnings.push(`${file.name}: ${more} more names and lines are left out`);
  return map;
}

function describe({ place, title, result, reason }: Outcome): string {
  if (result === "injected") return `${title ?? place}: injected: ${reason.text}`;
  if (result === "skipped") return `${title ?? place}: not injected (${reason.code}): ${reason.text}`;
  return `${place}: ${title === undefined ? "" : `${title}: `}not injected (${reason.code}): ${reason.text}`;
}
