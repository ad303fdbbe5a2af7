import { getServers } from "node:dns";
import { Resolver } from "node:dns/promises";
import { NO_ANSWER, NOT_OURS, type Readers } from "./publisher.ts";
import { healthNameOf, tagOf } from "./server-blocks.ts";

/**
 * Questions at once to each server. Each has a socket of its own, so that they reach all the pods behind a
 * Service's address.
 */
const QUESTIONS = 16;
const TRIES = { timeout: 1_000, tries: 2 };
/**
 * What c-ares says where a server did answer: there is no such name, no such record, or none for whoever asks (a
 * closed network's).
 */
const NEGATIVE: readonly unknown[] = ["ENOTFOUND", "ENODATA", "NXDOMAIN", "EREFUSED"];

/**
 * Asks the cluster's DNS what pods get of a publisher's server blocks: the servers of this process's own
 * resolv.conf, which in a pod with dnsPolicy ClusterFirst are the cluster's.
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
