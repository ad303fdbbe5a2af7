import { type Document, isMap, parseAllDocuments } from "yaml";
import { planBakedInjection } from "../hosts/inject.ts";
import { HOSTS_KEY, INJECT_KEY } from "../hosts/keys.ts";
import { longLineReason } from "../hosts/pack.ts";
import type { Chosen } from "../hosts/select.ts";
import type { HostAlias, Reason } from "../hosts/types.ts";

/** What became of one document of a file. */
export interface InjectOutcome {
  /** `Deployment shop/web`, or the document's number if it has no name. */
  readonly title: string;
  readonly injected: boolean;
  readonly reason: Reason;
  /** A refusal: the output would not be what was asked for. */
  readonly failed: boolean;
}

export interface InjectOptions {
  readonly choose: (annotation: string | undefined) => Chosen;
  readonly longLine: boolean;
}

/** Where the pod template of a kind stands; [] for a Pod itself. */
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
 * YAML in, the same YAML out with hostAliases and annotations in every pod template; comments, order and documents of other kinds
 * stay. A document that does not parse, or cannot be injected, is an outcome that failed.
 */
export function injectYaml(text: string, options: InjectOptions): { output: string; outcomes: InjectOutcome[] } {
  const documents = [...parseAllDocuments(text)];
  const outcomes = documents.flatMap((document, index) => injectDocument(document, index, options));
  return {
    output: documents
      .filter(({ contents }) => contents !== null)
      .map(render)
      .join("---\n"),
    outcomes,
  };
}

/** The separators are ours to write: a document that had one would print it again. */
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
  const items: unknown = document.getIn(["items"]);
  if (document.getIn(["kind"]) !== "List" || !("items" in Object(items)))
    return injectObject(document, [], index, options);
  const count = (document.toJS() as { items: unknown[] }).items.length;
  return Array.from({ length: count }, (_, item) => injectObject(document, ["items", item], index, options)).flat();
}

function injectObject(document: Document, at: Path, index: number, options: InjectOptions): InjectOutcome[] {
  const kind = document.getIn([...at, "kind"]);
  const template = typeof kind === "string" && Object.hasOwn(TEMPLATES, kind) ? TEMPLATES[kind] : undefined;
  if (template === undefined) return [];
  const title = titleOf(document, at, index);
  const pod: Path = [...at, ...template];
  const spec = document.getIn([...pod, "spec"]);
  if (!isMap(spec)) {
    const text = `${[...template, "spec"].join(".")} is not there`;
    return [{ title, injected: false, reason: { code: "no-pod-template", text }, failed: true }];
  }
  if (document.getIn([...pod, "metadata", "labels", INJECT_KEY]) === "disabled") {
    const reason = { code: "pod-disabled", text: `it carries the label ${INJECT_KEY}: disabled` };
    return [{ title, injected: false, reason, failed: false }];
  }
  return [{ title, ...injectPod(document, pod, options) }];
}

function injectPod(document: Document, pod: Path, { choose, longLine }: InjectOptions): Omit<InjectOutcome, "title"> {
  const { hostAliases, annotations } = readPod(document, pod);
  const chosen = choose(annotations[HOSTS_KEY]);
  const plan = planBakedInjection({ hostAliases, annotations }, chosen, longLine);
  if ("code" in plan) return { injected: false, reason: withWayOut(plan), failed: true };
  const aliases = [...plan.own, ...plan.block.aliases];
  if (aliases.length > 0) document.setIn([...pod, "spec", "hostAliases"], document.createNode(aliases));
  else document.deleteIn([...pod, "spec", "hostAliases"]);
  for (const [key, value] of Object.entries(plan.block.annotations)) {
    document.setIn([...pod, "metadata", "annotations", key], value);
  }
  const names = new Set(plan.block.aliases.flatMap(({ hostnames }) => hostnames));
  const warnings = [...chosen.warnings, longLineReason(plan.block.aliases)].filter((warning) => warning !== undefined);
  const text = [`${names.size} names`, ...warnings.map((warning) => warning.text)].join("; ");
  return { injected: true, reason: { code: "injected", text }, failed: false };
}

/** What only this command offers. */
function withWayOut(reason: Reason): Reason {
  if (reason.code !== "line-too-long") return reason;
  return { ...reason, text: `${reason.text}, or write the long line all the same with --long-line` };
}

function readPod(document: Document, pod: Path) {
  const value = (
    pod.length === 0 ? document.toJS() : (document.getIn(pod) as { toJS(doc: Document): unknown }).toJS(document)
  ) as {
    metadata?: { annotations?: Record<string, unknown> | null } | null;
    spec?: { hostAliases?: Array<Partial<HostAlias> | null> | null };
  };
  const annotations = Object.entries(value.metadata?.annotations ?? {}).map(([key, text]) => [key, String(text)]);
  const hostAliases = (value.spec?.hostAliases ?? []).map((alias) => ({
    ...alias,
    ip: alias?.ip ?? "",
    hostnames: alias?.hostnames ?? [],
  }));
  return { hostAliases, annotations: Object.fromEntries(annotations) as Record<string, string> };
}

function titleOf(document: Document, at: Path, index: number): string {
  const name = document.getIn([...at, "metadata", "name"]);
  const namespace = document.getIn([...at, "metadata", "namespace"]);
  if (typeof name !== "string") return `document ${index + 1}`;
  return `${String(document.getIn([...at, "kind"]))} ${typeof namespace === "string" ? `${namespace}/` : ""}${name}`;
}
