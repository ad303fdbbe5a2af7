import type { CustomSource } from "#lib/config/schema.ts";
import { hostsOfRule } from "./traefik-rule.ts";

type Syntax = CustomSource["syntax"];

/** The names in a text that a path has selected, or undefined if it has another syntax. A single `*` claims nothing. */
export function namesIn(text: string, syntax: Syntax): string[] | undefined {
  return READERS[syntax](text)?.filter((name) => name !== "" && name !== "*");
}

const READERS: Readonly<Record<Syntax, (text: string) => string[] | undefined>> = {
  name: (text) => [text],
  // The same as external-dns reads its annotation.
  list: (text) => text.split(",").map((name) => name.trim()),
  "traefik-rule": hostsOfRule,
  // Istio's Gateway: `namespace/name`; the namespace limits which services may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};
