import * as v from "valibot";
import { type Document, isAlias, isCollection, isMap, isScalar, isSeq } from "yaml";
import { type Injection, planBakedInjection } from "#hostmap/inject.ts";
import { HOSTS_KEY, INJECT_KEY, VIA_KEY } from "#hostmap/metadata-keys.ts";
import { isWindows, longLineReason } from "#hostmap/pack.ts";
import type { SelectedHosts } from "#hostmap/pod-selection.ts";
import type { HostAlias, Reason } from "#hostmap/types.ts";
import { object } from "#lib/errors/schemas.ts";
import { attempt } from "#lib/errors/validation.ts";
import type { Path } from "../kube-file.ts";
import { pathText, type TemplatePath } from "./pod-templates.ts";

export interface InjectOptions {
  readonly choose: (annotation: string | undefined) => SelectedHosts;
  readonly longLine: boolean;
  /** Inject only what a label opts in: that of the pod template, or that of its Namespace if the input has it. */
  readonly optedIn: boolean;
  readonly namespaceLabels: ReadonlyMap<unknown, Record<string, string>>;
  /** Where other kinds than Kubernetes' own have their pod templates. */
  readonly templatePaths: readonly TemplatePath[];
}

/** A pod template in a document. */
export interface Template {
  readonly document: Document;
  /** Its path in the document, of which the first `objectDepth` steps lead to the object. */
  readonly at: Path;
  readonly objectDepth: number;
  /** The plain value. Its parts may be missing or of any type. */
  readonly value: unknown;
}

/** Why the labels leave a pod template out. The webhook decides in the same way about the pod's own label. */
export function labelReason(
  { value }: Template,
  namespace: unknown,
  { optedIn, namespaceLabels }: InjectOptions,
): Reason | undefined {
  const own = textsOf(Object(Object(value).metadata).labels)[INJECT_KEY];
  if (own === "disabled")
    return { code: "pod-disabled", text: `the pod's label ${INJECT_KEY} is disabled, and the pod's label wins` };
  if (!optedIn || own === "enabled" || namespaceLabels.get(namespace)?.[INJECT_KEY] === "enabled") return undefined;
  return { code: "not-opted-in", text: `neither the pod nor its namespace opted in by the label ${INJECT_KEY}` };
}

/**
 * Writes hostAliases and annotations into the nodes of a template. Returns the code `injected`, with a text about the
 * names that it now has. Any other code is why the template cannot be changed, or why `kubectl apply` or the pod could
 * not use the result; then nothing is changed.
 */
export function injectTemplate(template: Template, { choose, longLine }: InjectOptions): Reason {
  const hostAliases = checkTemplate(template);
  if ("code" in hostAliases) return hostAliases;
  const { metadata, spec } = Object(template.value);
  const annotations = textsOf(metadata?.annotations);
  const selected = choose(annotations[HOSTS_KEY]);
  const plan = planBakedInjection(hostAliases, annotations, selected);
  if ("code" in plan) return { code: plan.code, text: plan.text };
  const { aliases } = plan.managed;
  const tooLong = longLineReason(aliases, isWindows(spec));
  if (tooLong !== undefined && !longLine)
    return { code: "line-too-long", text: `${tooLong.text}, or allow the long line with --long-line` };
  write(template, ["spec", "hostAliases"], aliasesNode(template, hostAliases, plan));
  for (const [key, text] of Object.entries(plan.managed.annotations))
    write(template, ["metadata", "annotations", key], text);
  const names = new Set(aliases.flatMap(({ hostnames }) => hostnames));
  const viaDns = textsOf(metadata?.labels)[VIA_KEY] === "dns";
  const warnings = [
    ...selected.warnings.map(({ text }) => text),
    tooLong?.text ?? [],
    viaDns ? `${VIA_KEY}: these are hostAliases; the webhook replaces them by pod DNS while its resolvers answer` : [],
  ];
  const text = [`${names.size} name${names.size === 1 ? "" : "s"}`, ...warnings.flat()].join("; ");
  return { code: "injected", text };
}

const aliasSchema = object({ ip: v.string(), hostnames: v.nullish(v.array(v.string()), []) });
/** The places that an injection writes to, as the API server accepts them. */
const templateSchema = object({
  spec: object({ hostAliases: v.nullish(v.array(aliasSchema), []) }),
  metadata: v.nullish(object({ annotations: v.nullish(object({})) })),
});

/** The aliases of a template, or a reason if it is malformed, or if others share its parts. */
function checkTemplate({ document, at, objectDepth, value }: Template): readonly HostAlias[] | Reason {
  const refused = (path: Path, code: string, what: string): Reason => {
    return { code, text: `${pathText(path.slice(objectDepth)) || "the object"} ${what}` };
  };
  const aliasesPath = [...at, "spec", "hostAliases"];
  const annotationsPath = [...at, "metadata", "annotations"];
  for (const touched of [annotationsPath, aliasesPath]) {
    const parts = [...touched.keys(), touched.length].map((length) => touched.slice(0, length));
    const shared = parts.find((part) => isShared(document, part));
    const cure = "write it out first, as `yq 'explode(.)'` does";
    if (shared !== undefined) return refused(shared, "yaml-shared", `is shared by a YAML anchor or merge key; ${cure}`);
  }
  const { value: valid, flaw } = attempt(templateSchema, Object(value));
  if (flaw === undefined) return valid.spec.hostAliases;
  let code = "template-malformed";
  if (flaw.path.at(-1) === "spec") code = "no-pod-template";
  return refused([...at, ...flaw.path], code, flaw.message);
}

/** Whether a YAML anchor or merge key shares, or may share, a node. */
function isShared(document: Document, at: Path): boolean {
  const node = document.getIn(at, true);
  const merges = isMap(node) && node.items.some(({ key }) => isScalar(key) && key.value === "<<");
  return isAlias(node) || merges || (isCollection(node) && node.anchor !== undefined);
}

/** Writes a field of the template, or removes it. Template engines leave maps without a value. */
function write({ document, at }: Template, path: Path, value: unknown): void {
  const whole = [...at, ...path];
  for (let length = at.length + 1; length < whole.length; length++) {
    const map = whole.slice(0, length);
    if (!isMap(document.getIn(map))) document.setIn(map, document.createNode({}));
  }
  if (value === undefined) document.deleteIn(whole);
  else document.setIn(whole, value);
}

/** The new list of aliases. The nodes of the user's own aliases stay, with their comments. */
function aliasesNode({ document, at }: Template, before: readonly HostAlias[], { userAliases, managed }: Injection) {
  const nodes = document.createNode(managed.aliases);
  const existing = document.getIn([...at, "spec", "hostAliases"]);
  if (!isSeq(existing) || userAliases.length === 0) return managed.aliases.length > 0 ? nodes : undefined;
  const kept = existing.items.filter((_, index) => userAliases.some((alias) => alias === before[index]));
  existing.items = [...kept, ...nodes.items];
  return existing;
}

/** A map of texts, such as labels, as the API server reads it. */
export function textsOf(value: unknown): Record<string, string> {
  return Object.fromEntries(Object.entries(Object(value)).map(([key, text]) => [key, String(text)]));
}
