/**
 * Returns the search domains of a resolv.conf, in lower case and without a final dot. The last of several lists
 * counts.
 */
export function searchesIn(resolvConf: string): string[] {
  const lines = resolvConf.split("\n").map((line) => line.trim().split(/\s+/));
  // resolv.conf(5)
  const [, ...list] = lines.findLast(([keyword]) => keyword === "search") ?? [];
  return list.map((domain) => domain.toLowerCase().replace(/\.$/, ""));
}

/**
 * The search domains of pods, as far as a process knows them: those of its own pod, and those that the configuration
 * of pod DNS adds.
 */
export function searchesOfPods(resolvConf: string, config: object): string[] {
  const { podDns } = config as { readonly podDns?: { readonly searches?: readonly string[] | undefined } };
  return [...searchesIn(resolvConf), ...(podDns?.searches ?? [])];
}
