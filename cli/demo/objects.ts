import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { describeError, SwitchbackError } from "#lib/errors/errors.ts";

/** An object of a YAML file. `kind` and `metadata.name` exist, everything else may be missing or of another type. */
export interface KubeObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
}

/** Maximum number of aliases. They may expand a small file to a huge one. */
const MAX_ALIASES = 100;
/** Kinds without a namespace. */
const CLUSTER_KINDS = ["Namespace", "Node", "IngressClass", "GatewayClass"];

/**
 * The objects in the `.yaml` and `.yml` files of a directory. Throws `input-invalid` with the place of a document that
 * is no object, and for a directory that cannot be read.
 */
export async function readObjects(directory: string): Promise<KubeObject[]> {
  const names = await readdir(directory).catch((error: unknown) => {
    throw new SwitchbackError("input-invalid", `${directory} is not a readable directory: ${describeError(error)}`);
  });
  const objects: KubeObject[] = [];
  for (const name of names.filter((one) => /\.ya?ml$/.test(one)).sort()) {
    const text = await readFile(join(directory, name), "utf8");
    for (const [index, document] of parseAllDocuments(text, { logLevel: "error" }).entries()) {
      try {
        if (document.errors[0] !== undefined) throw document.errors[0];
        objects.push(...unfold(document.toJS({ maxAliasCount: MAX_ALIASES })).map(checked));
      } catch (error) {
        const [first = ""] = describeError(error).split("\n", 1);
        throw new SwitchbackError("input-invalid", `${join(directory, name)}: document ${index + 1}: ${first}`);
      }
    }
  }
  return objects;
}

/** The items of a `kind: List`, or the value. An empty document has none. */
function unfold(value: unknown): readonly unknown[] {
  const { kind, items } = (value ?? {}) as { kind?: unknown; items?: unknown };
  if (kind === "List" && Array.isArray(items)) return items;
  return value === null ? [] : [value];
}

function checked(value: unknown): KubeObject {
  const { apiVersion, kind, metadata } = (value ?? {}) as Partial<Record<string, unknown>>;
  const { name, namespace = "default" } = (metadata ?? {}) as Partial<Record<string, unknown>>;
  if (![apiVersion, kind, name, namespace].every((each) => typeof each === "string")) {
    throw new Error("it lacks `apiVersion`, `kind` or `metadata.name`");
  }
  const object = value as KubeObject;
  if (CLUSTER_KINDS.includes(object.kind)) return object;
  return { ...object, metadata: { ...object.metadata, namespace: String(namespace) } };
}
