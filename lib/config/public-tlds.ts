import { domainToASCII } from "node:url";
import tlds from "tlds" with { type: "json" };

/**
 * The top-level domains of the public DNS (IANA, Root Zone Database), in lower case and as in DNS. An outdated list
 * costs little: a name below a newer domain is refused only if a namespace has the name of that domain.
 */
export const PUBLIC_TLDS: ReadonlySet<string> = new Set(tlds.map(domainToASCII));

/** Whether a label, in lower case, is a top-level domain of the public DNS. */
export function isPublicTld(label: string): boolean {
  return PUBLIC_TLDS.has(label);
}
