import { type Document, isAlias, isCollection, isMap, isScalar, isSeq } from "yaml";
import { type Injection, planBakedInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, RESOLVERS_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { isWindows, longLineReason } from "#hostmap/pack.ts";
import { holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import type { Path, YamlEditor } from "./yaml-editor.ts";

export interface InjectOptions {
  readonly choose: (annotation: string | undefined) => SelectedHosts;
  readonly longLine: boolean;
}

/** The reason why a pod template cannot be changed. */
export interface Refusal {
  readonly reason: Reason;
  /** The path in the document that the reason is about. */
  readonly at: Path;
}

/** A pod template and its place in an object. */
export interface TemplatePlace {
  readonly document: Document;
  /** Path of the template in the document. */
  readonly pod: Path;
  /** Length of the path of the object that contains the template. */
  readonly from: number;
}

/** The reason why the template cannot be changed. Checks its structure, but does not read its aliases. */
export function templateRefusal(place: TemplatePlace): Refusal | undefined {
  return sharedRefusal(place) ?? malformedRefusal(place);
}

/**
 * Writes hostAliases and annotations into a template. Returns a text about the names that it now has. If they cannot
 * be written, returns the reason and changes nothing.
 */
export function injectTemplate(place: TemplatePlace, editor: YamlEditor, options: InjectOptions): string | Refusal {
  const { document, pod: path } = place;
  const annotations = readAnnotations(document, path);
  const at = [...path, "spec", "hostAliases"];
  const hostAliases = readAliases(plain(document, at) ?? []);
  if (hostAliases === undefined) {
    const text = `${pathText(place, at)} is not a list of \`ip\` and \`hostnames\``;
    return { reason: { code: "aliases-malformed", text }, at };
  }
  const selected = options.choose(annotations[HOSTS_KEY]);
  const forWindows = runsOnWindows(place);
  const pod = { hostAliases, annotations, isWindows: forWindows };
  const plan = planBakedInjection(pod, selected, options.longLine);
  if ("code" in plan) return { reason: withFlagHint(plan), at };
  writePlan(place, editor, hostAliases, plan);
  restoreResolution(place, editor, annotations);
  const names = new Set(plan.managed.aliases.flatMap(({ hostnames }) => hostnames));
  const warnings = [...selected.warnings, longLineReason(plan.managed.aliases, forWindows), viaReason(place)];
  return [`${names.size} names`, ...warnings.flatMap((warning) => warning?.text ?? [])].join("; ");
}

/** A refusal if a YAML anchor or merge key shares, or may share, a node that would change. */
function sharedRefusal(place: TemplatePlace): Refusal | undefined {
  const { document, pod } = place;
  const touched = [
    [...pod, "metadata", "annotations"],
    [...pod, "spec", "hostAliases"],
  ];
  for (const path of touched) {
    for (let length = 0; length <= path.length; length += 1) {
      const at = path.slice(0, length);
      const node = document.getIn(at, true);
      const merges = isMap(node) && node.items.some(({ key }) => isScalar(key) && key.value === "<<");
      if (!isAlias(node) && !merges && !(isCollection(node) && node.anchor !== undefined)) continue;
      const where = pathText(place, at) || "the object";
      const text = `${where} is shared by a YAML anchor or merge key; write it out first, as \`yq 'explode(.)'\` does`;
      return { reason: { code: "yaml-shared", text }, at };
    }
  }
  return undefined;
}

function malformedRefusal(place: TemplatePlace): Refusal | undefined {
  const { document, pod } = place;
  if (!isMap(document.getIn([...pod, "spec"]))) {
    const at = [...pod, "spec"];
    return { reason: { code: "no-pod-template", text: `${pathText(place, at)} is missing` }, at };
  }
  for (const part of [["metadata"], ["metadata", "annotations"]]) {
    const at = [...pod, ...part];
    const node = document.getIn(at) ?? undefined;
    if (node === undefined || isMap(node)) continue;
    return { reason: { code: "metadata-malformed", text: `${pathText(place, at)} is not a map` }, at };
  }
  return undefined;
}

/** A path relative to the object, such as `spec.jobs[0].template`. */
function pathText({ from }: TemplatePlace, path: Path): string {
  return path
    .slice(from)
    .map((step, index) => (typeof step === "number" ? `[${step}]` : `${index > 0 ? "." : ""}${step}`))
    .join("");
}

/** Adds the remedy that only `switchback inject` has. */
function withFlagHint(reason: Reason): Reason {
  if (reason.code !== "line-too-long") return reason;
  return { ...reason, text: `${reason.text}, or allow the long line with --long-line` };
}

/** Writes the aliases and annotations. The text of the user's own aliases stays, with its comments. */
function writePlan(place: TemplatePlace, editor: YamlEditor, before: readonly HostAlias[], plan: Injection): void {
  const { document, pod } = place;
  const spec = [...pod, "spec"];
  const node = document.getIn([...spec, "hostAliases"]);
  const { aliases, annotations } = plan.managed;
  const isUsers = (index: number) => plan.userAliases.some((alias) => alias === before[index]);
  if (plan.userAliases.length + aliases.length === 0) editor.remove(spec, "hostAliases");
  else if (isSeq(node) && node.items.length > 0) editor.setItems(spec, "hostAliases", isUsers, aliases);
  else editor.set(pod, ["spec", "hostAliases"], aliases);
  const existing = document.getIn([...pod, "metadata", "annotations"]);
  // Template engines often leave an empty `annotations:`.
  if (!isMap(existing) || existing.items.length === 0) editor.set(pod, ["metadata", "annotations"], annotations);
  else for (const [key, value] of Object.entries(annotations)) editor.set(pod, ["metadata", "annotations", key], value);
}

/** Removes a `dnsConfig` that pod DNS wrote, and sets ClusterFirst. The manifest of a running pod may contain one. */
function restoreResolution({ document, pod }: TemplatePlace, editor: YamlEditor, annotations: Record<string, string>) {
  if (annotations[RESOLVERS_KEY] === undefined) return;
  const spec = [...pod, "spec"];
  const read = (key: string) => plain(document, [...spec, key]);
  const nameservers: unknown = Object(read("dnsConfig")).nameservers;
  const dnsConfig = { nameservers: Array.isArray(nameservers) ? nameservers.map(String) : [] };
  if (holdsResolvers({ dnsPolicy: String(read("dnsPolicy")), dnsConfig, annotations })) {
    editor.remove(spec, "dnsConfig");
    editor.set(pod, ["spec", "dnsPolicy"], "ClusterFirst");
  }
  editor.remove([...pod, "metadata", "annotations"], RESOLVERS_KEY);
}

function runsOnWindows({ document, pod }: TemplatePlace): boolean {
  const [os, nodeSelector] = ["os", "nodeSelector"].map((key) => plain(document, [...pod, "spec", key]));
  return isWindows({ os, nodeSelector });
}

function viaReason({ document, pod }: TemplatePlace): Reason | undefined {
  if (plain(document, [...pod, "metadata", "labels", VIA_KEY]) !== "dns") return undefined;
  const text = `${VIA_KEY}: these are hostAliases; the webhook replaces them by pod DNS while its resolvers answer`;
  return { code: "via-not-baked", text };
}

function readAnnotations(document: Document, pod: Path): Record<string, string> {
  const entries = Object.entries(Object(plain(document, [...pod, "metadata", "annotations"])));
  return Object.fromEntries(entries.map(([key, text]) => [key, String(text)]));
}

/** The template's aliases; undefined if the API server would reject them. */
function readAliases(value: unknown): HostAlias[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const aliases = value.map((alias) => ({ ip: alias?.ip, hostnames: alias?.hostnames ?? [] }));
  const isText = (text: unknown) => typeof text === "string";
  const valid = aliases.every(
    ({ ip, hostnames }) => isText(ip) && Array.isArray(hostnames) && hostnames.every((name) => isText(name)),
  );
  return valid ? aliases : undefined;
}

function plain(document: Document, path: Path): unknown {
  const node = document.getIn(path, true);
  return isCollection(node) || isScalar(node) ? node.toJS(document) : undefined;
}
