import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  isSeq,
  type ParsedNode,
  parseAllDocuments,
  type ScalarTag,
  type Tags,
} from "yaml";
import { type Injection, planBakedInjection } from "../hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY } from "../hostmap/metadata-keys.ts";
import { longLineReason } from "../hostmap/pack.ts";
import type { SelectedHosts } from "../hostmap/select-hosts.ts";
import type { HostAlias, Reason } from "../hostmap/types.ts";

/** The outcome for one object of a file. */
interface InjectOutcome {
  /** `Deployment shop/web`, or the document's number if it has no name. */
  readonly title: string;
  readonly injected: boolean;
  readonly reason: Reason;
  /** The object should have been injected and could not be. */
  readonly failed: boolean;
}

export interface InjectOptions {
  readonly choose: (annotation: string | undefined) => SelectedHosts;
  readonly longLine: boolean;
}

/** Path to the pod template of each kind; [] for a Pod itself. */
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  Pod: [],
  Deployment: ["spec", "template"],
  StatefulSet: ["spec", "template"],
  DaemonSet: ["spec", "template"],
  ReplicaSet: ["spec", "template"],
  ReplicationController: ["spec", "template"],
  Job: ["spec", "template"],
  CronJob: ["spec", "jobTemplate", "spec", "template"],
};

type Path = readonly (string | number)[];

/**
 * Adds hostAliases and annotations to every pod template of a YAML stream. Comments, order, number formats and documents of other
 * kinds are preserved. A document that does not parse or cannot be injected yields a failed outcome, and the output is empty.
 */
export function injectYaml(text: string, options: InjectOptions): { output: string; outcomes: InjectOutcome[] } {
  const documents = [...parseAllDocuments<ParsedNode>(text, { customTags: keepNumbers })];
  const outcomes = documents.flatMap((document, index) => injectDocument(document, index, options));
  if (outcomes.some(({ failed }) => failed)) return { output: "", outcomes };
  return { output: documents.filter(isFilled).map(render).join("---\n"), outcomes };
}

/**
 * Prints numbers as they were written. YAML 1.2 reads `defaultMode: 0644` as 644, kubectl (YAML 1.1) as octal; and a number may have
 * more digits than a double holds.
 */
function keepNumbers(tags: Tags): Tags {
  const numbers = ["tag:yaml.org,2002:int", "tag:yaml.org,2002:float"];
  return tags.map((tag) => {
    if (typeof tag !== "object" || !numbers.includes(tag.tag)) return tag;
    const { stringify } = tag as ScalarTag;
    return {
      ...(tag as ScalarTag),
      stringify: (node, ...rest) => node.source ?? stringify?.(node, ...rest) ?? String(node.value),
    } satisfies ScalarTag;
  });
}

function isFilled({ contents }: Document.Parsed): boolean {
  return contents !== null && !(isScalar(contents) && contents.value === null);
}

/** The caller writes the separators: without this, a document that had one would print it again. */
function render(document: Document.Parsed): string {
  if (document.directives) document.directives.docStart = null;
  return document.toString({ lineWidth: 0 });
}

function injectDocument(document: Document.Parsed, index: number, options: InjectOptions): InjectOutcome[] {
  const [error] = document.errors;
  if (error !== undefined) {
    const text = error.message.split("\n", 1)[0] ?? "";
    return [{ title: `document ${index + 1}`, injected: false, reason: { code: "yaml-invalid", text }, failed: true }];
  }
  const items = document.getIn(["items"]);
  if (document.getIn(["kind"]) !== "List" || !isSeq(items)) return injectObject(document, [], index, options);
  return items.items.flatMap((_, item) => injectObject(document, ["items", item], index, options));
}

function injectObject(document: Document, at: Path, index: number, options: InjectOptions): InjectOutcome[] {
  const kind = document.getIn([...at, "kind"]);
  const template = typeof kind === "string" && Object.hasOwn(TEMPLATES, kind) ? TEMPLATES[kind] : undefined;
  if (template === undefined) return [];
  const title = titleOf(document, at, index);
  const pod: Path = [...at, ...template];
  const refusal = sharedReason(document, pod, at.length) ?? templateReason(document, pod, template);
  if (refusal !== undefined) return [{ title, injected: false, reason: refusal, failed: true }];
  if (document.getIn([...pod, "metadata", "labels", INJECT_KEY]) === "disabled") {
    const reason = { code: "pod-disabled", text: `label ${INJECT_KEY}: disabled` };
    return [{ title, injected: false, reason, failed: false }];
  }
  return [{ title, ...injectPod(document, pod, options) }];
}

/**
 * The reason if a node that would be changed is, or may be, shared with another one by a YAML anchor or merge key. `from` is the
 * length of the path to the object itself.
 */
function sharedReason(document: Document, pod: Path, from: number): Reason | undefined {
  const touched = [
    [...pod, "metadata", "annotations"],
    [...pod, "spec", "hostAliases"],
  ];
  for (const path of touched) {
    for (let length = 0; length <= path.length; length += 1) {
      const node = document.getIn(path.slice(0, length), true);
      const merges = isMap(node) && node.items.some(({ key }) => isScalar(key) && key.value === "<<");
      if (!isAlias(node) && !merges && !(isCollection(node) && node.anchor !== undefined)) continue;
      const where = path.slice(from, length).join(".") || "the object";
      const text = `${where} is shared by a YAML anchor or merge key; write it out first, as \`yq 'explode(.)'\` does`;
      return { code: "yaml-shared", text };
    }
  }
  return undefined;
}

function templateReason(document: Document, pod: Path, template: readonly string[]): Reason | undefined {
  if (!isMap(document.getIn([...pod, "spec"]))) {
    return { code: "no-pod-template", text: `${[...template, "spec"].join(".")} is missing` };
  }
  const bad = [["metadata"], ["metadata", "annotations"]].find((part) => {
    const node = document.getIn([...pod, ...part]) ?? undefined;
    return node !== undefined && !isMap(node);
  });
  return bad && { code: "metadata-malformed", text: `${[...template, ...bad].join(".")} is not a map` };
}

function injectPod(document: Document, pod: Path, { choose, longLine }: InjectOptions): Omit<InjectOutcome, "title"> {
  const annotations = readAnnotations(document, pod);
  const hostAliases = readAliases(document, pod);
  if ("code" in hostAliases) return { injected: false, reason: hostAliases, failed: true };
  const selected = choose(annotations[HOSTS_KEY]);
  const plan = planBakedInjection({ hostAliases, annotations }, selected, longLine);
  if ("code" in plan) return { injected: false, reason: withFlagHint(plan), failed: true };
  writePlan(document, pod, hostAliases, plan);
  const names = new Set(plan.managed.aliases.flatMap(({ hostnames }) => hostnames));
  const warnings = [...selected.warnings, longLineReason(plan.managed.aliases)].filter(
    (warning) => warning !== undefined,
  );
  const text = [`${names.size} names`, ...warnings.map((warning) => warning.text)].join("; ");
  return { injected: true, reason: { code: "injected", text }, failed: false };
}

/** Adds the remedy that only this command has. */
function withFlagHint(reason: Reason): Reason {
  if (reason.code !== "line-too-long") return reason;
  return { ...reason, text: `${reason.text}, or allow the long line with --long-line` };
}

/** Keeps the nodes of the user's own aliases, and with them their comments. */
function writePlan(document: Document, pod: Path, before: readonly HostAlias[], plan: Injection): void {
  const at = [...pod, "spec", "hostAliases"];
  const node = document.getIn(at);
  const userNodes = isSeq(node)
    ? node.items.filter((_, index) => plan.userAliases.some((alias) => alias === before[index]))
    : [];
  const managedNodes = plan.managed.aliases.map((alias) => document.createNode(alias));
  if (userNodes.length + managedNodes.length === 0) document.deleteIn(at);
  else if (isSeq(node)) node.items = [...userNodes, ...managedNodes];
  else document.setIn(at, document.createNode(plan.managed.aliases));
  for (const part of ["metadata", "metadata.annotations"]) {
    const path = [...pod, ...part.split(".")];
    // Template engines often leave an empty `annotations:`.
    if (!isMap(document.getIn(path))) document.setIn(path, document.createNode({}));
  }
  for (const [key, value] of Object.entries(plan.managed.annotations)) {
    document.setIn([...pod, "metadata", "annotations", key], value);
  }
}

function readAnnotations(document: Document, pod: Path): Record<string, string> {
  const entries = Object.entries(Object(plain(document, [...pod, "metadata", "annotations"])));
  return Object.fromEntries(entries.map(([key, text]) => [key, String(text)]));
}

/** The template's aliases, or the reason why the API server would reject them. */
function readAliases(document: Document, pod: Path): HostAlias[] | Reason {
  const value = plain(document, [...pod, "spec", "hostAliases"]) ?? [];
  const malformed = { code: "aliases-malformed", text: "spec.hostAliases is not a list of `ip` and `hostnames`" };
  if (!Array.isArray(value)) return malformed;
  const aliases = value.map((alias) => ({ ip: alias?.ip, hostnames: alias?.hostnames ?? [] }));
  const isText = (text: unknown) => typeof text === "string";
  const valid = aliases.every(
    ({ ip, hostnames }) => isText(ip) && Array.isArray(hostnames) && hostnames.every((name) => isText(name)),
  );
  return valid ? aliases : malformed;
}

function plain(document: Document, path: Path): unknown {
  const node = document.getIn(path, true);
  return isCollection(node) || isScalar(node) ? node.toJS(document) : undefined;
}

function titleOf(document: Document, at: Path, index: number): string {
  const name = document.getIn([...at, "metadata", "name"]);
  const namespace = document.getIn([...at, "metadata", "namespace"]);
  if (typeof name !== "string") return `document ${index + 1}`;
  return `${String(document.getIn([...at, "kind"]))} ${typeof namespace === "string" ? `${namespace}/` : ""}${name}`;
}
