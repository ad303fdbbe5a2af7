/** Search domains of a resolv.conf, in lower case and without a last dot. Of several lists the last one counts. */
export function searchesIn(resolvConf: string): string[] {
  const lines = resolvConf.split("\n").map((line) => line.trim().split(/\s+/));
  // resolv.conf(5)
  const [, ...list] = lines.findLast(([keyword]) => keyword === "search") ?? [];
  return list.map((domain) => domain.toLowerCase().replace(/\.$/, ""));
}

/**
 * The search domains of pods, as far as a process knows them: those of its own pod, and those that the section of pod
 * DNS in the configuration gives to pods.
 */
export function searchesOfPods(resolvConf: string, config: object): string[] {
  const { podDns } = config as { readonly podDns?: { readonly searches?: readonly string[] | undefined } };
  return [...searchesIn(resolvConf), ...(podDns?.searches ?? [])];
}
