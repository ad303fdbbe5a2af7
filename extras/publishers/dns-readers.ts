import { getServers } from "node:dns";
import { Resolver } from "node:dns/promises";
import { NO_ANSWER, NOT_OURS, type Readers } from "./publisher.ts";
import { healthNameOf, tagOf } from "./server-blocks.ts";

/**
 * Number of simultaneous questions to each server. Each uses a separate socket, so that they reach all pods behind a
 * Service's address.
 */
const QUESTIONS = 16;
const TRIES = { timeout: 1_000, tries: 2 };
/**
 * Codes of c-ares for an answer without an address: no such name, no such record, or refused (in a closed network).
 */
const NEGATIVE: readonly unknown[] = ["ENOTFOUND", "ENODATA", "NXDOMAIN", "EREFUSED"];

/**
 * Asks the cluster's DNS what pods get from a publisher's server blocks. It asks the servers of this process's
 * resolv.conf. In a pod with dnsPolicy ClusterFirst, these are the cluster's servers.
 */
export function dnsReaders(publisher: string, servers: () => readonly string[] = getServers): Readers {
  const name = healthNameOf(publisher);
  return {
    tagOf,
    async ask() {
      const asked = servers().flatMap((server) => new Array<string>(QUESTIONS).fill(server));
      return new Set(await Promise.all(asked.map((server) => answerOf(server, name))));
    },
  };
}

async function answerOf(server: string, name: string): Promise<string> {
  const resolver = new Resolver(TRIES);
  try {
    resolver.setServers([server]);
    const [address = ""] = await resolver.resolve4(name);
    return address.startsWith("127.") ? address : NOT_OURS;
  } catch (error) {
    const { code } = error as { readonly code?: unknown };
    return NEGATIVE.includes(code) ? NOT_OURS : NO_ANSWER;
  }
}
