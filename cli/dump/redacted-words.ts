import { isIP } from "node:net";
import { isSoftwareName } from "#controller/targets/known-software.ts";
import { canonicalIp, foundName } from "#controller/targets/service-view.ts";
import { foldCase, parentsOf } from "#hostmap/hostnames.ts";
import { isPublicTld, PUBLIC_TLDS } from "#lib/config/public-tlds.ts";
import { frontName } from "#lib/documents/listeners.ts";

const LETTER = String.raw`[A-Za-z0-9\u{80}-\u{10ffff}]`;
/** Labels with hyphens inside, joined by dots. */
const WORD = `${LETTER}+(?:(?:-+|\\.)${LETTER}+)*`;
const TIME = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)`;
const IPV4 = String.raw`(?<![\w.-])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?(?![\w-]|\.\w)`;
const MAY_BE_IPV6 = `(?<!${LETTER})(?:[0-9A-Fa-f]{0,4}:){2,}[0-9A-Fa-f.:]*(?!${LETTER})`;
const IPV6_WITH_PORT = String.raw`\[[0-9A-Fa-f:.]+\]:\d{1,5}`;
const IS_TIME = new RegExp(`^${TIME}$`);
const WORDS = new RegExp(WORD, "gu");
const TOKENS = new RegExp([TIME, IPV4, IPV6_WITH_PORT, MAY_BE_IPV6, WORD].join("|"), "gu");

/** All words of a text, in lower case, and the domains above those with dots. */
export function wordsIn(text: string): string[] {
  return (text.match(WORDS) ?? []).map(foldCase).flatMap((word) => [word, ...parentsOf(word)]);
}

/** Names that our code makes of a known word and a number. */
const NUMBERED = /^linode-loadbalancer-port-\d{1,5}$/;
/** The name of IBM Cloud's Services has the id of the cluster. `isSoftwareName` also knows it with a suffix. */
const ALB = /^((?:public|private)-cr)([a-z0-9]+)(-alb\d+(?:-controller)?)$/;
/**
 * Beginnings of the names of front Services, of the agents' Leases, and of controllers that name their installation
 * (`INGRESS_NGINX_OWN_CONTROLLERS`).
 */
const BEGINNINGS = new RegExp(`^(${frontName("")}(?:agent-)?|ingress-nginx-)(.+)`);
/** A label that ends a hostname with an address instead of a domain (`lib/hostmap/hostnames.ts`). */
const NUMERIC = /^(?:[0-9]+|0x[0-9a-f]*)$/;
/** A word that is too long for a name stays so: longer ones keep their length, up to one more than a hostname has. */
const LONG = { from: 41, to: 254 };

/** At least the number of labels of each protected suffix. */
const MAX_SUFFIX = 6;

/** Addresses that mean the same everywhere. */
const COMMON_ADDRESSES = new Set(["0.0.0.0", "127.0.0.1", "::", "::1"]);
const PRIVATE = /^(?:10\.|172\.(?:1[6-9]|2\d|3[01])\.|192\.168\.|f[cd])/;

/**
 * Replaces every word that our code does not know, always with the same one, and every address with one of its kind.
 * All else of a text stays: a hostname keeps its number of labels, and what was not valid is not valid afterwards.
 */
export class RedactedWords {
  readonly #known: ReadonlySet<string>;
  /** Replacements of labels, by label in lower case. */
  readonly #words = new Map<string, string>();
  /** What `in` has replaced, by token. Most tokens occur often. */
  readonly #tokens = new Map<string, string>();
  readonly #addresses = new Map<string, string>();
  /** Top-level domains that are not used yet. */
  readonly #domains: string[];

  /** `known` are words in lower case. */
  constructor(known: ReadonlySet<string>) {
    this.#known = known;
    this.#domains = [...PUBLIC_TLDS].filter((domain) => domain.length === 2 && !known.has(domain));
  }

  in(text: string): string {
    return text.replace(TOKENS, (token) => {
      const replaced = this.#tokens.get(token) ?? this.#token(token);
      this.#tokens.set(token, replaced);
      return replaced;
    });
  }

  isKnown(word: string): boolean {
    const folded = foldCase(word);
    return this.#known.has(folded) || (isSoftwareName(folded) && !ALB.test(folded)) || NUMBERED.test(folded);
  }

  /** The name of a discovered target contains the name of its Service. Replaces both in the same way. */
  addService(namespace: string, name: string): void {
    this.#words.set(foundName(namespace, name), foundName(this.#label(namespace), this.#label(name)));
  }

  #token(token: string): string {
    if (IS_TIME.test(token)) return token;
    if (isIP(token) !== 0) return this.#address(token);
    const [, open = "", address = "", port = ""] = /^(\[?)(.*?)(\]?:\d*)$/.exec(token) ?? [];
    if (isIP(address) !== 0) return open + this.#address(address) + port;
    if (token.includes(":")) return token.replace(WORDS, (word) => this.#token(word));
    if (!token.includes(".")) return this.#label(token);
    if (this.isKnown(token)) return token;
    const labels = token.split(".");
    const own = labels.length - this.#suffixOf(labels);
    return labels.map((label, index) => (index < own ? this.#label(label) : label)).join(".");
  }

  /** The number of labels of the longest known suffix, such as that of a metadata server. */
  #suffixOf(labels: readonly string[]): number {
    for (let count = Math.min(labels.length, MAX_SUFFIX); count > 0; count -= 1) {
      if (this.#known.has(foldCase(labels.slice(-count).join(".")))) return count;
    }
    return 0;
  }

  #label(label: string): string {
    const folded = foldCase(label);
    let word = this.#words.get(folded);
    if (word === undefined && this.isKnown(label)) return label;
    word ??= this.#compound(folded) ?? this.#newWord(folded);
    this.#words.set(folded, word);
    return folded === label ? word : word.toUpperCase();
  }

  /** Replaces only the part that our code does not know. */
  #compound(label: string): string | undefined {
    if (label.length >= LONG.to) return undefined;
    const [, cluster, id = "", number] = ALB.exec(label) ?? [];
    if (cluster !== undefined) return cluster + this.#label(id) + number;
    const [prefix = "", rest = ""] = BEGINNINGS.exec(label)?.slice(1) ?? [];
    return rest === "" ? undefined : prefix + this.#label(rest);
  }

  #newWord(label: string): string {
    const number = this.#words.size + 1;
    if (NUMERIC.test(label)) return String(100_000 + number);
    const domain = isPublicTld(label) ? this.#domains.shift() : undefined;
    const isAscii = /^[\0-\x7f]*$/.test(label);
    const word = domain ?? `n${number}${isAscii ? "" : "é"}`;
    return label.length < LONG.from ? word : word.padEnd(Math.min(label.length, LONG.to), "x");
  }

  #address(written: string): string {
    const address = canonicalIp(written);
    if (COMMON_ADDRESSES.has(address)) return address;
    const known = this.#addresses.get(address);
    if (known !== undefined) return known;
    const number = this.#addresses.size + 1;
    const [high, low] = [number >> 8, number & 255];
    const isPrivate = PRIVATE.test(address);
    const next =
      isIP(address) === 6
        ? `${isPrivate ? "fd00" : "2001:db8"}::${number.toString(16)}`
        : `${isPrivate ? "10" : "198"}.${18 + (high >> 8)}.${high & 255}.${low}`;
    this.#addresses.set(address, next);
    return next;
  }
}
