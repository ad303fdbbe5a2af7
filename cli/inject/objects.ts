import { type Document, isMap, isScalar, isSeq } from "yaml";
import { show } from "#hostmap/hostnames.ts";
import type { Reason } from "#hostmap/types.ts";
import { groupOf } from "#lib/kube/paths.ts";
import { EACH, misspeltIn, renderSteps, type TemplatePath } from "./pod-templates.ts";
import type { Path } from "./yaml-editor.ts";

/** A Kubernetes object within a document. */
export interface ManifestObject {
  readonly at: Path;
  readonly kind: string;
  readonly apiVersion: unknown;
}

/** The objects of a document, with lists unfolded. For a part that is not an object, only its path. */
export function objectsOf(document: Document): (ManifestObject | Path)[] {
  return unfold(document, [], undefined);
}

/**
 * `list` is the list that contains the object. The API server's own lists state the kind of their items only by the
 * list's kind.
 */
function unfold(
  document: Document,
  at: Path,
  list: Pick<ManifestObject, "kind" | "apiVersion"> | undefined,
): (ManifestObject | Path)[] {
  const kind = textAt(document, [...at, "kind"]) ?? list?.kind;
  if (kind === undefined) return [at];
  const apiVersion = document.getIn([...at, "apiVersion"]) ?? list?.apiVersion;
  const items = document.getIn([...at, "items"]);
  if (!kind.endsWith("List") || !isSeq(items)) return [{ at, kind, apiVersion }];
  const ofItems = kind === "List" ? undefined : { kind: kind.slice(0, -"List".length), apiVersion };
  return items.items.flatMap((_, index) => unfold(document, [...at, "items", index], ofItems));
}

/** `Deployment shop/web`; undefined if the object has no name. */
export function titleOf(document: Document, { at, kind }: ManifestObject): string | undefined {
  const name = textAt(document, [...at, "metadata", "name"]);
  const namespace = textAt(document, [...at, "metadata", "namespace"]);
  return name && `${kind} ${namespace === undefined ? "" : `${namespace}/`}${name}`;
}

/**
 * Resolves the template path of an object. `[*]` selects every item of a list. A path without `[*]` yields one
 * result, even if it does not exist.
 */
export function expandPath(document: Document, at: Path, { path }: TemplatePath): Path[] {
  let found: Path[] = [at];
  for (const step of path) {
    found = found.flatMap((before) => {
      if (step !== EACH) return [[...before, step]];
      const list = document.getIn(before);
      return isSeq(list) ? list.items.map((_, index) => [...before, index]) : [];
    });
  }
  return found;
}

/**
 * Why the user may have wanted an object injected that passes through: it contains a pod template, or its kind does
 * not exist. Undefined for other objects, such as a Service.
 */
export function overlookedReason(document: Document, { at, kind, apiVersion }: ManifestObject): Reason | undefined {
  const kinds = misspeltIn(kind, apiVersion);
  if (kinds !== undefined) {
    const text = `${String(apiVersion)} has no kind ${show(kind)}; the kinds that hold pods are ${kinds.join(", ")}`;
    return { code: "kind-unknown", text };
  }
  const path = findTemplate(document.getIn(at), []);
  if (path === undefined) return undefined;
  const where = renderSteps(path);
  const group = groupOf(apiVersion);
  const flag = where === "" ? "" : `--template-path ${kind}${group === "" ? "" : `.${group}`}=${where} injects it`;
  if (group === KNATIVE) {
    const setting = "kubernetes.podspec-hostaliases in the ConfigMap config-features";
    return { code: "host-aliases-refused", text: `Knative refuses hostAliases unless ${setting} allows them; ${flag}` };
  }
  const what =
    `no kind ${show(kind)} is known to hold pods, ` + `and ${where === "" ? "it" : where} looks like a pod template`;
  return { code: "kind-unknown", text: flag === "" ? what : `${what}; ${flag}` };
}

/**
 * Knative's API group. Its webhook rejects `hostAliases` by default (knative/serving, pkg/apis/config/features.go:
 * PodSpecHostAliases).
 */
const KNATIVE = "serving.knative.dev";

type FoundPath = readonly (string | typeof EACH)[];

/**
 * The path to the first map that looks like a pod template: its `spec` has containers. Not every template is one:
 * there are also templates of an Application, a virtual machine or a node.
 */
function findTemplate(node: unknown, path: FoundPath): FoundPath | undefined {
  if (isSeq(node)) return firstOf(node.items, (item) => findTemplate(item, [...path, EACH]));
  if (!isMap(node)) return undefined;
  const spec = node.get("spec");
  if (isMap(spec) && isSeq(spec.get("containers"))) return path;
  return firstOf(node.items, ({ key, value }) =>
    isScalar(key) && typeof key.value === "string" ? findTemplate(value, [...path, key.value]) : undefined,
  );
}

function firstOf<Item, Found>(items: readonly Item[], find: (item: Item) => Found | undefined): Found | undefined {
  for (const item of items) {
    const found = find(item);
    if (found !== undefined) return found;
  }
  return undefined;
}

function textAt(document: Document, path: Path): string | undefined {
  const value = document.getIn(path);
  return typeof value === "string" ? value : undefined;
}
