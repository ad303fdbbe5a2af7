import type { CustomSource } from "../../../config/schema.ts";
import { hostsOfRule } from "./traefik-rule.ts";

type Syntax = CustomSource["syntax"];

/** The names in a text that a path has led to, or undefined when it does not read as it should. A `*` alone claims nothing. */
export function namesIn(text: string, syntax: Syntax): string[] | undefined {
  return READERS[syntax](text)?.filter((name) => name !== "" && name !== "*");
}

const READERS: Readonly<Record<Syntax, (text: string) => string[] | undefined>> = {
  name: (text) => [text],
  // As external-dns reads its annotation.
  list: (text) => text.split(",").map((name) => name.trim()),
  "traefik-rule": hostsOfRule,
  // Istio's Gateway: `namespace/name`, where the namespace says who may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};
