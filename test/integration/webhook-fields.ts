// The fields of a webhook configuration, by the API server's own schema, and a valid change of each.

/** The part of an OpenAPI v3 schema that is read here. */
interface Schema {
  readonly $ref?: string;
  readonly allOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

/** The leaves below a schema, such as `webhooks[].rules[].operations[]`, sorted. */
export function leavesOf(document: unknown, name: string): string[] {
  const { schemas } = (document as { components: { schemas: Readonly<Record<string, Schema>> } }).components;
  const walk = (schema: Schema, path: string): string[] => {
    const ref = schema.$ref ?? schema.allOf?.find(({ $ref }) => $ref !== undefined)?.$ref;
    if (ref !== undefined) return walk(schemas[ref.slice(ref.lastIndexOf("/") + 1)] ?? {}, path);
    if (schema.items !== undefined) return walk(schema.items, `${path}[]`);
    if (schema.properties === undefined) return [path];
    const dot = path === "" ? "" : `${path}.`;
    return Object.entries(schema.properties).flatMap(([key, child]) => walk(child, `${dot}${key}`));
  };
  return walk(schemas[name] ?? {}, "").sort();
}

/** Fields that every write may have, and the one field that the controller maintains. */
export const UNCHANGED: readonly string[] = ["apiVersion", "kind", "webhooks[].clientConfig.caBundle"];

/** Fields that the API server ignores in a request, or that record the writer. */
export const SET_BY_SERVER: readonly string[] = [
  "metadata.creationTimestamp",
  "metadata.deletionGracePeriodSeconds",
  "metadata.deletionTimestamp",
  "metadata.generation",
  "metadata.managedFields[].apiVersion",
  "metadata.managedFields[].fieldsType",
  "metadata.managedFields[].fieldsV1",
  "metadata.managedFields[].manager",
  "metadata.managedFields[].operation",
  "metadata.managedFields[].subresource",
  "metadata.managedFields[].time",
  "metadata.name",
  "metadata.namespace",
  "metadata.resourceVersion",
  "metadata.selfLink",
  "metadata.uid",
];

type Patch = ReadonlyArray<{ readonly op: string; readonly path: string; readonly value?: unknown }>;

const replace = (path: string, value: unknown): Patch => [{ op: "replace", path: `/webhooks/0/${path}`, value }];
const add = (path: string, value: unknown): Patch => [{ op: "add", path: `/webhooks/0/${path}`, value }];
const addMeta = (path: string, value: unknown): Patch => [{ op: "add", path: `/metadata/${path}`, value }];

const CONDITION = { name: "all.example.com", expression: "true" };
const OWNER = { apiVersion: "v1", kind: "Namespace", name: "default", uid: "00000000-0000-0000-0000-000000000001" };
const owner = (more: object) => addMeta("ownerReferences", [{ ...OWNER, ...more }]);
/** The fields of a selector. Both selectors of the first entry have expressions. */
const selector = (name: string): Record<string, Patch> => ({
  [`webhooks[].${name}.matchLabels`]: add(`${name}/matchLabels`, { a: "b" }),
  [`webhooks[].${name}.matchExpressions[].key`]: replace(`${name}/matchExpressions/0/key`, "other"),
  [`webhooks[].${name}.matchExpressions[].operator`]: [
    { op: "replace", path: `/webhooks/0/${name}/matchExpressions/0`, value: { key: "a", operator: "Exists" } },
  ],
  [`webhooks[].${name}.matchExpressions[].values[]`]: add(`${name}/matchExpressions/0/values/-`, "shop"),
});

/** Every other leaf, with a valid JSON patch that changes it. */
export const changed: Readonly<Record<string, Patch>> = {
  "metadata.annotations": addMeta("annotations", { a: "b" }),
  "metadata.finalizers[]": addMeta("finalizers", ["example.com/never"]),
  "metadata.generateName": addMeta("generateName", "other-"),
  "metadata.labels": addMeta("labels/a", "b"),
  "metadata.ownerReferences[].apiVersion": owner({}),
  "metadata.ownerReferences[].blockOwnerDeletion": owner({ blockOwnerDeletion: true }),
  "metadata.ownerReferences[].controller": owner({ controller: true }),
  "metadata.ownerReferences[].kind": owner({ kind: "Node" }),
  "metadata.ownerReferences[].name": owner({ name: "other" }),
  "metadata.ownerReferences[].uid": owner({ uid: "00000000-0000-0000-0000-000000000002" }),
  "webhooks[].admissionReviewVersions[]": add("admissionReviewVersions/-", "v1beta1"),
  "webhooks[].clientConfig.service.name": replace("clientConfig/service/name", "evil"),
  "webhooks[].clientConfig.service.namespace": replace("clientConfig/service/namespace", "evil"),
  "webhooks[].clientConfig.service.path": replace("clientConfig/service/path", "/evil"),
  "webhooks[].clientConfig.service.port": replace("clientConfig/service/port", 8443),
  "webhooks[].clientConfig.url": replace("clientConfig", { url: "https://evil.example.com/" }),
  "webhooks[].failurePolicy": replace("failurePolicy", "Fail"),
  "webhooks[].matchConditions[].expression": add("matchConditions", [CONDITION]),
  "webhooks[].matchConditions[].name": add("matchConditions", [{ ...CONDITION, name: "none.example.com" }]),
  "webhooks[].matchPolicy": replace("matchPolicy", "Exact"),
  "webhooks[].name": replace("name", "other.switchback.dev"),
  ...selector("namespaceSelector"),
  ...selector("objectSelector"),
  "webhooks[].reinvocationPolicy": replace("reinvocationPolicy", "Never"),
  "webhooks[].rules[].apiGroups[]": replace("rules/0/apiGroups", ["*"]),
  "webhooks[].rules[].apiVersions[]": replace("rules/0/apiVersions", ["*"]),
  "webhooks[].rules[].operations[]": replace("rules/0/operations", ["*"]),
  "webhooks[].rules[].resources[]": replace("rules/0/resources", ["*/*"]),
  "webhooks[].rules[].scope": replace("rules/0/scope", "*"),
  "webhooks[].sideEffects": replace("sideEffects", "NoneOnDryRun"),
  "webhooks[].timeoutSeconds": replace("timeoutSeconds", 30),
};
