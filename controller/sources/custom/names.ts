import type { CustomSource } from "#lib/config/schema.ts";
import { hostsOfRule } from "./traefik-rule.ts";

type Syntax = CustomSource["syntax"];

/**
 * The names in a text that a path has selected; undefined: the text has another syntax. A single `*` claims no name.
 */
export function namesIn(text: string, syntax: Syntax): string[] | undefined {
  return READERS[syntax](text)?.filter((name) => name !== "" && name !== "*");
}

const READERS: Readonly<Record<Syntax, (text: string) => string[] | undefined>> = {
  name: (text) => [text],
  // Like external-dns, which removes blanks and a trailing dot (endpoint/endpoint.go, NewEndpointWithTTL).
  list: (text) => text.split(",").map((name) => withoutLastDot(name.trim())),
  // Traefik ignores a trailing dot (pkg/muxer/http/matcher.go, host).
  "traefik-rule": (text) => hostsOfRule(text)?.map(withoutLastDot),
  // Istio's Gateway: `namespace/name`; the namespace limits which services may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};

/** Removes the trailing dot that names have in a zone file. */
function withoutLastDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}
