import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/select-hosts.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { CliContext } from "#lib/process/context.ts";
import { findFiles } from "./inject/find-files.ts";
import { readHostsFile } from "./inject/hosts-file.ts";
import { type Injected, injectManifest, type Outcome } from "./inject/manifest.ts";
import { parseTemplatePath } from "./inject/pod-templates.ts";
import { joinManifests } from "./inject/print.ts";
import { readTextFile, type TextFile } from "./inject/text-file.ts";

export interface InjectFlags {
  readonly filename: readonly string[];
  readonly recursive?: boolean;
  readonly hosts?: string;
  readonly templatePath?: readonly string[];
  readonly strict?: boolean;
  readonly maxNames?: number;
  readonly longLine?: boolean;
  readonly namespace: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** At most this many lines are printed about parts of the hosts file that are left out. */
const MAX_LEFT_OUT = 10;

/**
 * Prints the files with hostAliases in every pod template, and reports on standard error what was done. Throws
 * `input-invalid` for bad input, and then prints nothing on standard output. With `-R`, a bad file costs itself
 * alone, as with `kubectl apply -R`: the others are printed before it throws.
 */
export async function inject(flags: InjectFlags, context: CliContext): Promise<void> {
  const { stdout, stderr } = context;
  const templatePaths = (flags.templatePath ?? []).map(parseTemplatePath);
  const names = findFiles(flags.filename, flags.recursive ?? false);
  const files = readFiles(names, flags.recursive ?? false, stderr);
  const unread = names.length - files.length;
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
  const [overlooked, others] = [true, false].map((is) =>
    outcomes.filter(({ result }) => (result === "overlooked") === is).map(describe),
  );
  warnings.push(...(overlooked ?? []));
  for (const line of [...warnings.map((warning) => `warning: ${warning}`), ...(others ?? [])]) stderr.line(line);
  const isFailed = (manifest: Injected) => manifest.outcomes.some(({ result }) => result === "failed");
  const failed = unread + manifests.filter(isFailed).length;
  if (failed > 0 && (!flags.recursive || flags.strict)) {
    throw new SwitchbackError("input-invalid", "not all objects could be injected; no output was written");
  }
  if (flags.strict && warnings.length > 0) {
    throw new SwitchbackError("input-invalid", "--strict: there are warnings; no output was written");
  }
  stdout.write(joinManifests(manifests.filter((manifest) => !isFailed(manifest)).map(({ output }) => output)));
  if (failed === 0) return;
  throw new SwitchbackError("input-invalid", `${failed} of ${names.length} files are not in the output`);
}

/** Reads files one by one. With `-R`, a file that cannot be read costs itself alone, as with kubectl. */
function readFiles(names: readonly string[], recursive: boolean, stderr: CliContext["stderr"]): TextFile[] {
  return names.flatMap((name) => {
    try {
      return [readTextFile(name)];
    } catch (error) {
      if (!recursive || !(error instanceof SwitchbackError)) throw error;
      stderr.line(error.message);
      return [];
    }
  });
}

async function readMap(flags: InjectFlags, { env, progress }: CliContext, warnings: string[]): Promise<PublishedMap> {
  // The API client is half of what this command would load.
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
