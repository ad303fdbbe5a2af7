import { domainToASCII } from "node:url";
import tlds from "tlds" with { type: "json" };

/**
 * The top-level domains of the public DNS (IANA, Root Zone Database), in lower case and as in DNS. An outdated list
 * costs little: a name below a newer domain is refused only if a namespace has the name of that domain.
 */
export function publicTlds(): ReadonlySet<string> {
  known ??= new Set(tlds.map(domainToASCII));
  return known;
}

/** Made on first use, which few processes have: `domainToASCII` loads tables of 225 KB. */
let known: ReadonlySet<string> | undefined;

/** Whether a label, in lower case, is a top-level domain of the public DNS. */
export function isPublicTld(label: string): boolean {
  return publicTlds().has(label);
}
