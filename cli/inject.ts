import type { Command } from "@commander-js/extra-typings";
import { InvalidArgumentError } from "commander";
import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import type { ConnectFlags } from "#lib/kube/connect.ts";
import type { CliContext } from "#lib/process/context.ts";
import { collect, type Definition, installationOptions, notEmpty } from "./command.ts";
import { findFiles, readTextFile } from "./inject/files.ts";
import { readHostsFile } from "./inject/hosts-file.ts";
import { injectDocument, namespaceLabelsIn, type Outcome, readManifest } from "./inject/manifest.ts";
import { parseTemplatePath } from "./inject/pod-templates.ts";

/** Defines `switchback inject`. */
export function define(command: Command, { context }: Definition): void {
  installationOptions(command)
    .argument("[files...]", "files or directories with workloads; - for standard input", collect)
    .option("-f, --filename <file...>", "files or directories, as in kubectl", collect)
    .option("-R, --recursive", "read the folders of directories, too")
    .option("--hosts <file>", "read the names from a hosts file instead of the published map", notEmpty)
    .option("--template-path <kind=path...>", "inject another kind, such as Rollout.argoproj.io=spec.template", collect)
    .option("--opted-in", "inject only what the label of a pod template, or of its Namespace in the input, opts in")
    .option("--strict", "fail if there are warnings, such as a pod template in an object of an unknown kind")
    .option("--max-names <n>", "maximum number of names per pod", positiveInteger)
    .option("--long-line", "allow lines that are too long for musl (over 480 bytes) or Windows (over nine names)")
    .action(async (files = [], { filename = [], ...flags }) => {
      await inject({ ...flags, filename: [...files, ...filename] }, context);
    });
}

/** Parses a whole number from 1. */
function positiveInteger(value: string): number {
  const count = Number(value);
  if (/^\d{1,9}$/.test(value) && count > 0) return count;
  throw new InvalidArgumentError("Expected a whole number from 1.");
}

export interface InjectFlags extends ConnectFlags {
  /** Files and directories, as arguments or with `-f`. */
  readonly filename: readonly string[];
  readonly recursive?: boolean | undefined;
  readonly hosts?: string | undefined;
  readonly templatePath?: readonly string[] | undefined;
  readonly strict?: boolean | undefined;
  readonly maxNames?: number | undefined;
  readonly longLine?: boolean | undefined;
  readonly optedIn?: boolean | undefined;
  readonly namespace: string;
}

/** Maximum number of warnings about parts of the hosts file that are left out. */
const MAX_LEFT_OUT = 10;
/** Maximum number of causes to print when no output is written. */
const MAX_CAUSES = 4;

/**
 * Prints the files with hostAliases in every pod template, and reports on standard error what was done. What cannot be
 * read as YAML stays as it is, with a warning. Throws `input-invalid` for other bad input, and then prints nothing on
 * standard output.
 */
export async function inject(flags: InjectFlags, context: CliContext): Promise<void> {
  const { stdout, stderr } = context;
  const templatePaths = (flags.templatePath ?? []).map(parseTemplatePath);
  if (flags.filename.length === 0) {
    throw new SwitchbackError("input-invalid", "no file is given: name files or directories, or - for standard input");
  }
  const files = findFiles(flags.filename, flags.recursive ?? false).map((name) => readManifest(readTextFile(name)));
  const warnings: string[] = [];
  const map = await readMap(flags, context, warnings);
  const options = {
    choose: createSelector(map, flags.maxNames ?? DEFAULT_MAX_NAMES),
    longLine: flags.longLine ?? false,
    optedIn: flags.optedIn ?? false,
    templatePaths,
  };
  const namespaceLabels = namespaceLabelsIn(files.flat());
  const injected = files.map((file) => file.map((document) => injectDocument(document, namespaceLabels, options)));
  const outcomes = injected.flat().flatMap((document) => document.outcomes);
  if (outcomes.length === 0) warnings.push("no pods or workloads found");
  const linesOf = (wanted: (result: Outcome["result"]) => boolean) =>
    outcomes.filter(({ result }) => wanted(result)).map(describe);
  const failures = linesOf((result) => result === "failed");
  warnings.push(...linesOf((result) => result === "overlooked"));
  if (failures.length > 0) refuse(failures, stderr);
  if (flags.strict && warnings.length > 0) {
    refuse(
      warnings.map((warning) => `--strict: ${warning}`),
      stderr,
    );
  }
  const done = linesOf((result) => result === "injected" || result === "skipped");
  for (const line of [...warnings.map((warning) => `warning: ${warning}`), ...done]) stderr.line(line);
  stdout.write(joinFiles(injected.map((file) => file.map(({ output }) => output).join(""))));
}

/** Joins the texts of files to one YAML stream. */
function joinFiles(texts: readonly string[]): string {
  const [first = "", ...rest] = texts.filter((text) => text !== "");
  return rest.reduce((joined, text) => {
    const marker = text.startsWith("---") ? "" : text.startsWith("%") ? "...\n" : "---\n";
    return `${joined}${joined.endsWith("\n") ? "" : "\n"}${marker}${text}`;
  }, first);
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
