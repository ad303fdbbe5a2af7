import { type Document, isAlias, isCollection, isMap, isScalar, isSeq, Scalar, visit, type YAMLMap } from "yaml";
import { type Injection, planBakedInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, RESOLVERS_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { isWindows, longLineReason } from "#hostmap/pack.ts";
import { holdsResolvers } from "#hostmap/pod-dns-marks.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import type { Path } from "./pod-templates.ts";

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
 * Writes hostAliases and annotations into the nodes of a template. Returns a text about the names that it now has. If
 * they cannot be written, returns the reason and changes nothing.
 */
export function injectTemplate(place: TemplatePlace, options: InjectOptions): string | Refusal {
  const { document, pod: path } = place;
  const { metadata, spec } = plainAt(document, path) as { metadata?: Metadata; spec: Spec };
  const annotations = textsOf(metadata?.annotations);
  const hostAliases = readAliases(spec.hostAliases ?? []);
  if (hostAliases === undefined) {
    const at = [...path, "spec", "hostAliases"];
    const text = `${pathText(place, at)} is not a list of \`ip\` and \`hostnames\``;
    return { reason: { code: "aliases-malformed", text }, at };
  }
  const selected = options.choose(annotations[HOSTS_KEY]);
  const forWindows = isWindows(spec);
  const plan = planBakedInjection({ hostAliases, annotations, isWindows: forWindows }, selected, options.longLine);
  if ("code" in plan) return { reason: withFlagHint(plan), at: [...path, "spec", "hostAliases"] };
  writePlan(place, hostAliases, plan);
  restoreResolution(place, spec, annotations);
  const names = new Set(plan.managed.aliases.flatMap(({ hostnames }) => hostnames));
  const warnings = [...selected.warnings, longLineReason(plan.managed.aliases, forWindows), viaReason(metadata)];
  return [`${names.size} names`, ...warnings.flatMap((warning) => warning?.text ?? [])].join("; ");
}

interface Metadata {
  readonly labels?: unknown;
  readonly annotations?: unknown;
}

interface Spec {
  readonly hostAliases?: unknown;
  readonly dnsConfig?: unknown;
  readonly dnsPolicy?: unknown;
  readonly os?: unknown;
  readonly nodeSelector?: unknown;
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

/** Writes the aliases and annotations. The nodes of the user's own aliases stay, with their comments. */
function writePlan({ document, pod }: TemplatePlace, before: readonly HostAlias[], plan: Injection): void {
  const at = [...pod, "spec", "hostAliases"];
  const { aliases, annotations } = plan.managed;
  const existing = document.getIn(at);
  if (isSeq(existing) && plan.userAliases.length > 0) {
    const isUsers = (index: number) => plan.userAliases.some((alias) => alias === before[index]);
    const kept = existing.items.filter((_, index) => isUsers(index));
    existing.items = [...kept, ...aliases.map((alias) => newNode(document, alias))];
  } else if (aliases.length > 0) setIn(document, at, aliases);
  else document.deleteIn(at);
  for (const [key, value] of Object.entries(annotations))
    setIn(document, [...pod, "metadata", "annotations", key], value);
}

/** Removes a `dnsConfig` that pod DNS wrote, and sets ClusterFirst. The manifest of a running pod may contain one. */
function restoreResolution({ document, pod }: TemplatePlace, spec: Spec, annotations: Record<string, string>): void {
  if (annotations[RESOLVERS_KEY] === undefined) return;
  const nameservers: unknown = Object(spec.dnsConfig).nameservers;
  const dnsConfig = { nameservers: Array.isArray(nameservers) ? nameservers.map(String) : [] };
  if (holdsResolvers({ dnsPolicy: String(spec.dnsPolicy), dnsConfig, annotations })) {
    document.deleteIn([...pod, "spec", "dnsConfig"]);
    setIn(document, [...pod, "spec", "dnsPolicy"], "ClusterFirst");
  }
  document.deleteIn([...pod, "metadata", "annotations", RESOLVERS_KEY]);
}

/** Sets a value. Maps on the way that are missing, empty or null (as template engines leave them) are new. */
function setIn(document: Document, path: Path, value: unknown): void {
  const depth = path.findIndex((_, index) => {
    const node = document.getIn(path.slice(0, index + 1));
    return !isCollection(node) || node.items.length === 0;
  });
  const whole = path.slice(depth).reduceRight((inner, key) => ({ [key]: inner }), value);
  const parent = document.getIn(path.slice(0, depth)) as YAMLMap;
  for (const { key, value: node } of newNode(document, whole).items) parent.set(key, node);
}

/**
 * A node for a new value. Its texts are in double quotes: YAML 1.1, which kubectl reads, has more texts that are
 * numbers or booleans than this library knows. So are the keys in a document that may be JSON.
 */
function newNode(document: Document, value: unknown): YAMLMap {
  const node = document.createNode(value) as YAMLMap;
  const mayBeJson = isCollection(document.contents) && document.contents.flow === true;
  visit(node, {
    Scalar(role, scalar) {
      if (role !== "key" || mayBeJson) scalar.type = Scalar.QUOTE_DOUBLE;
    },
  });
  return node;
}

function viaReason(metadata: Metadata | undefined): Reason | undefined {
  if (textsOf(metadata?.labels)[VIA_KEY] !== "dns") return undefined;
  const text = `${VIA_KEY}: these are hostAliases; the webhook replaces them by pod DNS while its resolvers answer`;
  return { code: "via-not-baked", text };
}

/** A map of texts, such as labels, as the API server reads it. */
export function textsOf(value: unknown): Record<string, string> {
  return Object.fromEntries(Object.entries(Object(value)).map(([key, text]) => [key, String(text)]));
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

/** The value of a place as plain objects. */
export function plainAt(document: Document, path: Path): unknown {
  const node = document.getIn(path, true);
  return isCollection(node) || isScalar(node) ? node.toJS(document) : undefined;
}
