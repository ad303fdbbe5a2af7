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
 * `b.example.com`) && PathPrefix(`/x`) || Host(`c.example.com`)``. Undefined: not a rule.
 */
export function hostsOfRule(rule: string): string[] | undefined {
  if (rule.length > MAX_RULE) return undefined;
  const reader = new RuleReader();
  TOKEN.lastIndex = 0;
  const end = rule.trimEnd().length;
  while (TOKEN.lastIndex < end) {
    const match = TOKEN.exec(rule);
    if (match === null || !reader.take(match)) return undefined;
  }
  return reader.done ? reader.hosts : undefined;
}

/** Reads the tokens one by one. Brackets are kept on a stack, so that nested brackets cannot exhaust the call stack. */
class RuleReader {
  readonly hosts: string[] = [];
  /** For each open bracket of an expression: whether its content is negated. */
  readonly #brackets: boolean[] = [false];
  /** Whether a `!` precedes the next token. */
  #not = false;
  /** The last named matcher; `inside`: its arguments are being read. */
  #matcher: { readonly name: string; inside: boolean } | undefined;

  get done(): boolean {
    return this.#brackets.length === 1 && this.#matcher === undefined && !this.#not;
  }

  /** Takes one token. Returns false if the token is not valid here. */
  take([, name, mark, raw, quoted]: RegExpExecArray): boolean {
    if (this.#matcher?.inside === true) return this.#argument(mark, raw ?? unquote(quoted));
    if (this.#matcher !== undefined) return this.#open(mark);
    if (name !== undefined) {
      this.#matcher = { name: name.toLowerCase(), inside: false };
      return true;
    }
    return mark !== undefined && this.#mark(mark);
  }

  #mark(mark: string): boolean {
    switch (mark) {
      case "!":
        this.#not = !this.#not;
        return true;
      case "(":
        this.#brackets.push(this.#negated());
        return true;
      case ")":
        this.#brackets.pop();
        return this.#brackets.length > 0;
      default:
        return mark !== "," && !this.#not;
    }
  }

  #open(mark: string | undefined): boolean {
    if (this.#matcher !== undefined) this.#matcher.inside = true;
    return mark === "(";
  }

  #argument(mark: string | undefined, text: string | undefined): boolean {
    if (text !== undefined) {
      const { name = "" } = this.#matcher ?? {};
      if (HOST_MATCHERS.has(name) && !(this.#not !== (this.#brackets.at(-1) ?? false))) this.hosts.push(text);
      return true;
    }
    if (mark === ")") {
      this.#matcher = undefined;
      this.#not = false;
      return true;
    }
    return mark === ",";
  }

  /** Applies a preceding `!` to a bracket, and resets it. */
  #negated(): boolean {
    const negated = this.#not !== (this.#brackets.at(-1) ?? false);
    this.#not = false;
    return negated;
  }
}

function unquote(quoted: string | undefined): string | undefined {
  return quoted?.replace(/\\(.)/gs, "$1");
}
