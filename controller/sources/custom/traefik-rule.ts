/** Matchers whose arguments are hostnames, in lower case: Traefik takes any case. Those by regular expression name no host. */
const HOST_MATCHERS = new Set(["host", "hostheader", "hostsni"]);
/** A longer rule is not looked at. */
const MAX_RULE = 65_536;

/** A name, an operator, a bracket, or a text between backticks or (with escapes) between quotation marks. */
const TOKEN = /\s*(?:([A-Za-z_]\w*)|(&&|\|\||[!(),])|`([^`]*)`|"((?:[^"\\]|\\.)*)")/y;

/**
 * The hosts in a rule of Traefik, as in ``Host(`a.example.com`, `b.example.com`) && PathPrefix(`/x`) || Host(`c.example.com`)``;
 * those under a `!` are not among them. Undefined: it is no rule.
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

/** Reads token after token. Brackets are kept on a stack, so that a rule of brackets alone cannot exhaust anything. */
class RuleReader {
  readonly hosts: string[] = [];
  /** For each open bracket of an expression: whether what is in it is negated. */
  readonly #brackets: boolean[] = [false];
  /** Whether a `!` stands before what comes next. */
  #not = false;
  /** The matcher that was named last; `inside`: its arguments are being read. */
  #matcher: { readonly name: string; inside: boolean } | undefined;

  get done(): boolean {
    return this.#brackets.length === 1 && this.#matcher === undefined && !this.#not;
  }

  /** False: it cannot stand here. */
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

  /** Takes a `!` that stands before a bracket into account, and off. */
  #negated(): boolean {
    const negated = this.#not !== (this.#brackets.at(-1) ?? false);
    this.#not = false;
    return negated;
  }
}

function unquote(quoted: string | undefined): string | undefined {
  return quoted?.replace(/\\(.)/gs, "$1");
}
