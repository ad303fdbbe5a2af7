/**
 * Matchers whose arguments are hostnames. They are in lower case here, because Traefik accepts any case. Matchers by
 * regular expression name no host.
 */
const HOST_MATCHERS = new Set(["host", "hostheader", "hostsni"]);
/** Maximum length of a rule that is read. */
const MAX_RULE = 65_536;

/** A name, an operator, a bracket, or a text between backticks or (with escapes) between quotation marks. */
const TOKEN = /\s*(?:([A-Za-z_]\w*)|(&&|\|\||[!(),])|`([^`]*)`|"((?:[^"\\]|\\.)*)")/y;

/**
 * The hosts in a rule of Traefik, without negated hosts (`!`). An example of a rule is ``Host(`a.example.com`,
 * `b.example.com`) && PathPrefix(`/x`) || Host(`c.example.com`)``. Undefined: not a rule. Open brackets are in a list,
 * so that nested ones cannot exhaust the call stack.
 */
export function hostsOfRule(rule: string): string[] | undefined {
  if (rule.length > MAX_RULE) return undefined;
  const hosts: string[] = [];
  /** For each open bracket of an expression: whether its content is negated. */
  const brackets = [false];
  /** Whether a `!` precedes the next token. */
  let not = false;
  TOKEN.lastIndex = 0;
  const end = rule.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const [, name, mark] = TOKEN.exec(rule) ?? [];
    const isNegated = not !== brackets.at(-1);
    if (name !== undefined) {
      const texts = readArguments(rule);
      if (texts === undefined) return undefined;
      if (HOST_MATCHERS.has(name.toLowerCase()) && !isNegated) hosts.push(...texts);
      not = false;
    } else if (mark === "!") not = !not;
    else if (mark === "(") {
      brackets.push(isNegated);
      not = false;
    } else if (mark === ")" && brackets.length > 1) brackets.pop();
    else if (mark === undefined || mark === "," || mark === ")" || not) return undefined;
  }
  return brackets.length === 1 && !not ? hosts : undefined;
}

/** The arguments in brackets after the name of a matcher, from the current token on. Undefined: there are none. */
function readArguments(rule: string): string[] | undefined {
  if (TOKEN.exec(rule)?.[2] !== "(") return undefined;
  const texts: string[] = [];
  for (let token = TOKEN.exec(rule); token !== null; token = TOKEN.exec(rule)) {
    const [, , mark, raw, quoted] = token;
    const text = raw ?? quoted?.replace(/\\(.)/gs, "$1");
    if (mark === ")") return texts;
    if (text !== undefined) texts.push(text);
    else if (mark !== ",") return undefined;
  }
  return undefined;
}
