import { createHash } from "node:crypto";

// Texts that nobody may see outside of a cluster, for tests of what a redacted dump lets through.

/** Makes texts of many forms, the same for the same seed. Remembers the words, numbers and addresses in them. */
export class SecretTexts {
  /** In lower case. */
  readonly parts = new Set<string>();
  readonly #seed: number;
  #made = 0;
  #form: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.#form = seed;
  }

  /** The next text. Every form comes after some calls. */
  next(): string {
    this.#form += 1;
    const form = FORMS[this.#form % FORMS.length] as (typeof FORMS)[number];
    return form(this);
  }

  word(): string {
    return this.#part(`zq${this.#bytes(5).toString("hex")}k`);
  }

  number(): string {
    return this.#part(String(800_000_000_000 + this.#bytes(4).readUInt32LE()));
  }

  /** No address of the ranges from which a redacted dump takes its own. */
  ipv4(first = 66): string {
    return this.#part([first, ...this.#bytes(3).map((byte) => byte | 64)].join("."));
  }

  ipv6(): string {
    return this.#part(`2a0e:${this.#bytes(2).toString("hex")}::${this.#bytes(2).toString("hex")}:1`);
  }

  /** The parts that a text has, also in Base64, and in a PEM block in Base64. */
  foundIn(text: string): string[] {
    const decoded = decode(text);
    const lower = [text, decoded, decode(decoded.replace(/\r?\n/g, ""))].join("\n").toLowerCase();
    return [...this.parts].filter((part) => lower.includes(part));
  }

  #bytes(count: number): Buffer {
    this.#made += 1;
    return createHash("sha256").update(`${this.#seed} ${this.#made}`).digest().subarray(0, count);
  }

  #part(text: string): string {
    this.parts.add(text.toLowerCase());
    return text;
  }
}

function decode(text: string): string {
  return (text.match(/[A-Za-z0-9+/]{40,}/g) ?? [])
    .map((run) => Buffer.from(run, "base64").toString("latin1"))
    .join("\n");
}

const capital = (word: string) => word.charAt(0).toUpperCase() + word.slice(1);

const FORMS: readonly ((make: SecretTexts) => string)[] = [
  (make) => make.word(),
  (make) => capital(make.word()),
  (make) => make.word().toUpperCase(),
  (make) => `${make.word()}-${make.word()}`,
  (make) => `${make.word()}_${make.word()}`,
  (make) => `${make.word()}.${make.word()}.com`,
  (make) => `*.${make.word()}.bmw`,
  (make) => `shop.${make.ipv4()}.nip.io`,
  (make) => make.ipv4(),
  (make) => make.ipv4(10),
  (make) => `${make.ipv4()}:8443`,
  (make) => make.ipv6(),
  (make) => `[${make.ipv6()}]:53`,
  (make) => `${make.ipv4()}/24`,
  (make) => make.number(),
  (make) => `account ${make.number()} of ${capital(make.word())}`,
  (make) => `${make.word()}@${make.word()}.org`,
  (make) => `https://${make.word()}:${make.word()}@${make.word()}.net/oauth?token=${make.word()}`,
  (make) => `arn:aws:iam::${make.number()}:user/${capital(make.word())}`,
  (make) => `Authorization: Basic ${make.word()}+${make.word()}/${make.word()}==`,
  (make) => `AKIA${make.word().toUpperCase()}`,
  (make) => `system:serviceaccount:${make.word()}:${make.word()}`,
  (make) => JSON.stringify({ [make.word()]: [make.word(), { code: make.word(), text: make.ipv4() }] }),
  (make) => `{ ${make.word()}: ${make.word()}`,
  (make) => `Host(\`${make.word()}.com\`) && Header(\`X-Key\`, \`${make.word()}\`)`,
  (make) => `${make.word()}%20${make.word()}\u00a0${make.word()}é`,
  (make) => `switchback-${make.word()}`,
  (make) => `public-cr${make.word()}-alb1`,
  (make) => `2026-01-01T00:00:00Z ${make.word()}`,
  (make) => `proxy ${make.word()} internal external`,
];
