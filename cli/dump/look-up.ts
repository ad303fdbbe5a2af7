import { askedFor, type DnsLookup } from "#controller/dnscheck/lookup.ts";
import { parseHostname } from "#hostmap/hostnames.ts";

interface LookUpOptions {
  readonly lookup: DnsLookup;
  /**
   * Whether an address is Switchback's own or another tool's, so that it does not show where the name leads without
   * them.
   */
  readonly isOurs: (address: string) => boolean;
  readonly signal: AbortSignal;
}

/** Maximum number of look-ups at the same time. */
const CONCURRENCY = 16;

/**
 * Asks DNS for names and wildcards. Leaves out a name without an answer, or with an address for which `isOurs` is
 * true.
 */
export async function lookUpAll(names: Iterable<string>, options: LookUpOptions): Promise<Map<string, string[]>> {
  const found = new Map<string, string[]>();
  const queue = new Set(names).values();
  const worker = async () => {
    for (const name of queue) {
      if (options.signal.aborted) return;
      const parsed = parseHostname(name);
      const addresses = parsed.kind === "invalid" ? undefined : await addressesOf(parsed.name, options);
      if (parsed.kind !== "invalid" && addresses !== undefined) found.set(parsed.name, addresses);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, worker));
  return found;
}

async function addressesOf(name: string, { lookup, isOurs }: LookUpOptions): Promise<string[] | undefined> {
  try {
    const answers = await Promise.all(([4, 6] as const).map((family) => lookup(askedFor(name), family)));
    const addresses = answers.flatMap((answer) => answer.addresses);
    return addresses.some(isOurs) ? undefined : addresses;
  } catch {
    return undefined;
  }
}
