import type { Command } from "@commander-js/extra-typings";
import { createSelector, DEFAULT_MAX_NAMES } from "#hostmap/pod-selection.ts";
import type { PublishedMap } from "#hostmap/types.ts";
import { isMap } from "#lib/documents/published-map.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { printable } from "#lib/errors/printable.ts";
import type { CliContext } from "#lib/process/context.ts";
import { collect, type Definition, type FlagsOf, installationOptions, notEmpty, wholeNumber } from "./command.ts";
import { readHostsFile } from "./inject/hosts-file.ts";
import { injectManifest, namespaceLabelsIn, type Outcome, readManifests } from "./inject/manifest.ts";
import { parseTemplatePath } from "./inject/pod-templates.ts";
import { findFiles, readTextFile } from "./kube-file.ts";

function withOptions(command: Command) {
  return installationOptions(command)
    .option("-f, --filename <file...>", "files or directories, as in kubectl", collect)
    .option("-R, --recursive", "read the folders of directories, too")
    .option("--hosts <file>", "read the names from a hosts file instead of the published map", notEmpty)
    .option("--template-path <kind=path...>", "inject another kind, such as Rollout.argoproj.io=spec.template", collect)
    .option("--opted-in", "inject only what the label of a pod template, or of its Namespace in the input, opts in")
    .option("--strict", "fail if there are warnings, such as a pod template in an object of an unknown kind")
    .option("--max-names <n>", "maximum number of names per pod", wholeNumber(1_000_000))
    .option("--long-line", "allow lines that are too long for musl (over 480 bytes) or Windows (over nine names)");
}

export type InjectFlags = FlagsOf<typeof withOptions>;

/** Defines `switchback inject`. */
export function define(command: Command, { context }: Definition): void {
  withOptions(command)
    .argument("[files...]", "files or directories with workloads; - for standard input", collect)
    .action(async (files = [], { filename = [], ...flags }) => {
      await inject({ ...flags, filename: [...files, ...filename] }, context);
    });
}

/**
 * Prints the files with hostAliases in every pod template, and reports on standard error what was done. What cannot be
 * read as YAML stays as it is, with a warning. Throws `input-invalid` for other bad input, and then prints nothing on
 * standard output.
 */
export async function inject(flags: InjectFlags, context: CliContext): Promise<void> {
  const { stdout, stderr } = context;
  const { filename = [] } = flags;
  const templatePaths = (flags.templatePath ?? []).map(parseTemplatePath);
  if (filename.length === 0) {
    throw new SwitchbackError("input-invalid", "no file is given: name files or directories, or - for standard input");
  }
  const files = findFiles(filename, flags.recursive ?? false).map((name) => readManifests(readTextFile(name)));
  const warnings: string[] = [];
  const map = await readMap(flags, context, warnings);
  const options = {
    choose: createSelector(map, flags.maxNames ?? DEFAULT_MAX_NAMES),
    longLine: flags.longLine ?? false,
    optedIn: flags.optedIn ?? false,
    namespaceLabels: namespaceLabelsIn(files.flat()),
    templatePaths,
  };
  const injected = files.map((file) => file.map((manifest) => injectManifest(manifest, options)));
  const outcomes = injected.flat().flatMap((document) => document.outcomes);
  if (outcomes.length === 0) warnings.push("no pods or workloads found");
  warnings.push(...outcomes.filter(({ result }) => result === "overlooked").map(describe));
  const failures = outcomes.filter(({ result }) => result === "failed").map(describe);
  if (flags.strict) failures.push(...warnings.map((warning) => `--strict: ${warning}`));
  if (failures.length > 0) throw new SwitchbackError("input-invalid", failures.map(printable).join("\n"));
  for (const warning of warnings) stderr.line(`warning: ${warning}`);
  for (const outcome of outcomes) if (outcome.result !== "overlooked") stderr.line(describe(outcome));
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

/**
 * Reads the names of a hosts file, else those that the cluster publishes. Throws `data-corrupt` if the cluster's map is
 * missing or cannot be read.
 */
async function readMap(flags: InjectFlags, context: CliContext, warnings: string[]): Promise<PublishedMap> {
  if (flags.hosts !== undefined) {
    const { map, leftOut } = readHostsFile(readTextFile(flags.hosts));
    warnings.push(...leftOut);
    return map;
  }
  // Imported only here: the API client is half of what this command would load.
  const { withClient } = await import("./with-client.ts");
  const { readMap: readPublished } = await import("#lib/documents/map-reader.ts");
  const read = () => withClient("inject", flags, context, (client) => readPublished(client, flags.namespace));
  const map = await context.progress.during("reading the map", read);
  if (isMap(map)) return map;
  throw new SwitchbackError("data-corrupt", `the map in namespace ${flags.namespace} is not usable: ${map.text}`);
}

function describe({ place, title, result, reason }: Outcome): string {
  const where =
    title === undefined ? place : result === "failed" || result === "overlooked" ? `${place}: ${title}` : title;
  return `${where}: ${result === "injected" ? "injected" : `not injected (${reason.code})`}: ${reason.text}`;
}
