import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { it } from "node:test";
import { fileURLToPath } from "node:url";
import { parse, parseAllDocuments } from "yaml";
import { configSections } from "#cli/extras.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { Config } from "#lib/config/schema.ts";
import { binary } from "../cluster/binaries.ts";

// The chart as `helm template` renders it, and values to render it with.

export const CHART = fileURLToPath(new URL("../../manifests/chart", import.meta.url));
const sections = await configSections();
export const helm = await binary("helm");

/** The release's namespace. It is not the usual one, so that the tests find a template with a fixed namespace. */
export const NAMESPACE = "names-of-ours";
export const COMPONENTS = ["controller", "webhook", "proxy"] as const;

// biome-ignore lint/suspicious/noExplicitAny: rendered YAML, read as it comes
export type Rendered = any;

export function runHelm(
  values: object,
  flags: readonly string[] = [],
): { code: number | null; stdout: string; stderr: string } {
  const args = ["template", "switchback", CHART, "--namespace", NAMESPACE, "--values", "-", ...flags];
  const { status, stdout, stderr } = spawnSync(helm, args, { input: JSON.stringify(values), encoding: "utf8" });
  return { code: status, stdout, stderr };
}

/** The notes that `helm install` prints at its end. */
export function notesOf(values: object): string {
  const args = ["install", "switchback", CHART, "--namespace", NAMESPACE, "--dry-run=client", "--values", "-"];
  const { status, stdout, stderr } = spawnSync(helm, args, { input: JSON.stringify(values), encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return stdout.slice(stdout.indexOf("\nNOTES:"));
}

/** What `helm template` prints. */
export function renderText(values: object, flags: readonly string[] = []): string {
  const { code, stdout, stderr } = runHelm(values, flags);
  assert.equal(code, 0, stderr);
  return stdout;
}

export function render(values: object = {}, flags: readonly string[] = []): Rendered[] {
  return parseAllDocuments(renderText(values, flags))
    .map((document) => {
      assert.deepEqual(document.errors, []);
      return document.toJS();
    })
    .filter((object) => object !== null);
}

export function named(objects: Rendered[], kind: string, name: string): Rendered {
  return objects.find((object) => object.kind === kind && object.metadata.name === name);
}

export function podOf(objects: Rendered[], component: string): Rendered {
  return named(objects, "Deployment", `switchback-${component}`).spec.template;
}

/**
 * What rendered objects have at a place, such as `Deployment switchback-proxy spec replicas`. An item of a list is
 * named by its index or its `name`. Undefined: the place does not exist.
 */
function at(objects: Rendered[], place: string): Rendered {
  const [kind = "", name = "", ...fields] = place.split(" ");
  return fields.reduce(
    (value, field) => {
      const isNamed = Array.isArray(value) && !/^\d+$/.test(field);
      return isNamed ? value.find((item) => item.name === field) : value?.[field];
    },
    named(objects, kind, name),
  );
}

/** The place of a field of a component's pods. */
export const pod = (component: string, field: string) =>
  `Deployment switchback-${component} spec template spec ${field}`;

/** A title, the values of an install, and what its objects have at places. */
export type Install = readonly [title: string, values: object, expected: Readonly<Record<string, unknown>>];

export function testInstalls(...installs: readonly Install[]): void {
  for (const [title, values, expected] of installs)
    it(title, () => {
      const objects = render(values);
      const found = Object.keys(expected).map((place) => [place, at(objects, place)]);
      assert.deepEqual(Object.fromEntries(found), expected);
    });
}

/** The rules of a component's NetworkPolicy, such as `8080 from a`. A peer is its CIDR, or its last label. */
export function rulesOf(objects: Rendered[], component: string): string[] {
  const { spec } = named(objects, "NetworkPolicy", `switchback-${component}`);
  const portOf = ({ protocol, port, endPort }: Rendered) =>
    `${protocol === "UDP" ? "UDP " : ""}${port}${endPort ? `-${endPort}` : ""}`;
  const peerOf = ({ ipBlock, podSelector, namespaceSelector }: Rendered) =>
    ipBlock?.cidr ?? Object.values((podSelector ?? namespaceSelector).matchLabels).at(-1);
  const ruleOf = (word: "from" | "to") => (rule: Rendered) =>
    `${rule.ports.map(portOf).join(", ")} ${word} ${rule[word]?.map(peerOf).join(", ") ?? "any"}`;
  return [...spec.ingress.map(ruleOf("from")), ...spec.egress.map(ruleOf("to"))];
}

/** The config that the pods mount, parsed as they parse it. */
export function configOf(objects: Rendered[]): Config {
  return parseConfig(parse(named(objects, "ConfigMap", "switchback-config").data["config.yaml"]), sections);
}

/** A target of its own class, with one port. */
export const host = (name: string, port: object, more: object = {}) => ({
  name,
  upstream: { host: "lb.example.com" },
  ports: [port],
  classes: [name],
  ...more,
});
export const relayed = host("traefik", { port: 443, protocol: "v2", listenPort: 9443 });
export const direct = {
  ...host("direct", { port: 80, protocol: "none" }),
  upstream: { service: { namespace: "edge", name: "router" } },
};
