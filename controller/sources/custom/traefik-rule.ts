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
  const signs = new Signs();
  TOKEN.lastIndex = 0;
  const end = rule.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const [, name, mark] = TOKEN.exec(rule) ?? [];
    if (name === undefined) {
      if (!signs.take(mark)) return undefined;
      continue;
    }
    const texts = readArguments(rule);
    if (texts === undefined) return undefined;
    if (!signs.isNegated && HOST_MATCHERS.has(name.toLowerCase())) hosts.push(...texts);
    signs.not = false;
  }
  return signs.areComplete ? hosts : undefined;
}

/** The signs between matchers. */
class Signs {
  /** For each open bracket: whether its content is negated. */
  readonly #brackets = [false];
  /** Whether a `!` precedes the next token. */
  not = false;

  get isNegated(): boolean {
    return this.not !== this.#brackets.at(-1);
  }

  get areComplete(): boolean {
    return this.#brackets.length === 1 && !this.not;
  }

  /** Returns false if the sign is not valid here. */
  take(sign: string | undefined): boolean {
    if (sign === "!") this.not = !this.not;
    else if (sign === "(") {
      this.#brackets.push(this.isNegated);
      this.not = false;
    } else if (this.not) return false;
    else if (sign === ")") return this.#brackets.length > 1 && this.#brackets.pop() !== undefined;
    return sign === "!" || sign === "(" || sign === "&&" || sign === "||";
  }
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
