import type { CustomSource } from "#lib/config/schema.ts";
import { hostsOfRule } from "./traefik-rule.ts";

type Syntax = CustomSource["syntax"];

/** The names in a text that a path has selected, or undefined if it has another syntax. A single `*` claims nothing. */
export function namesIn(text: string, syntax: Syntax): string[] | undefined {
  return READERS[syntax](text)?.filter((name) => name !== "" && name !== "*");
}

const READERS: Readonly<Record<Syntax, (text: string) => string[] | undefined>> = {
  name: (text) => [text],
  // As external-dns reads its annotation: blanks go, and a last dot (endpoint/endpoint.go, NewEndpointWithTTL).
  list: (text) => text.split(",").map((name) => withoutLastDot(name.trim())),
  // Traefik, pkg/muxer/http/matcher.go, host: a last dot makes no difference.
  "traefik-rule": (text) => hostsOfRule(text)?.map(withoutLastDot),
  // Istio's Gateway: `namespace/name`; the namespace limits which services may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};

/** A name as in a zone file has a dot at its end. */
function withoutLastDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}
