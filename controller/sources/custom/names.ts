import type { CustomSource } from "#lib/config/schema.ts";

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
  "traefik-rule": (text) => (text.length > MAX_RULE ? undefined : hostsOfRule(text)?.map(withoutLastDot)),
  // Istio's Gateway: `namespace/name`; the namespace limits which services may bind to it.
  "istio-host": (text) => [text.slice(text.indexOf("/") + 1)],
};

/** Removes the trailing dot that names have in a zone file. */
function withoutLastDot(name: string): string {
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

/**
 * Matchers of Traefik whose arguments are hostnames. They are in lower case here, because Traefik accepts any case.
 * Matchers by regular expression name no host.
 */
const HOST_MATCHERS = new Set(["host", "hostheader", "hostsni"]);
/** Maximum length of a rule that is read. */
const MAX_RULE = 65_536;

/** A bracket with the name of its matcher, another sign, or a text in backticks or (with escapes) quotation marks. */
const TOKEN = /\s*(?:([A-Za-z_]\w*)?(\()|(&&|\|\||[!),])|`([^`]*)`|"((?:[^"\\]|\\.)*)")/y;

/**
 * The hosts in a rule of Traefik, without negated hosts (`!`). An example of a rule is ``Host(`a.example.com`,
 * `b.example.com`) && PathPrefix(`/x`) || Host(`c.example.com`)``. Undefined: not a rule. Open brackets are in a list,
 * so that nested ones cannot exhaust the call stack.
 */
function hostsOfRule(rule: string): string[] | undefined {
  const hosts: string[] = [];
  const open = [{ isHost: false, isNegated: false }];
  let not = false;
  TOKEN.lastIndex = 0;
  const end = rule.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const token = TOKEN.exec(rule);
    const around = open.at(-1);
    if (token === null || around === undefined) return undefined;
    const [, matcher = "", bracket, mark, raw, quoted = ""] = token;
    if (bracket !== undefined) {
      open.push({ isHost: HOST_MATCHERS.has(matcher.toLowerCase()), isNegated: around.isNegated !== not });
      not = false;
    } else if (mark === ")") open.pop();
    else if (mark === "!") not = !not;
    else if (mark === undefined && around.isHost && !around.isNegated)
      hosts.push(raw ?? quoted.replace(/\\(.)/gs, "$1"));
  }
  return open.length === 1 ? hosts : undefined;
}
