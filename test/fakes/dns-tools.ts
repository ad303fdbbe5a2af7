// What the tools that Switchback's users come from write into the files of the cluster's DNS, in the form of their
// own source.

export interface DnsTool {
  readonly tool: string;
  /** What a name that it rewrites leads to. */
  readonly proxy: string;
  /** The key of `coredns-custom` that it writes; undefined: it writes into the Corefile. */
  readonly key?: string;
  /** The text of its key, or the Corefile with its lines. */
  readonly write: (corefile: string, names: readonly string[]) => string;
}

/** Behind the first line of the block of the root; white space at both ends of the file goes. */
function atTheBeginning(corefile: string, lines: readonly string[]): string {
  return corefile.trim().replace(/^\.:53 \{$/m, (line) => [line, ...lines].join("\n"));
}

/** Before the last line of the block of the root, which is the last one of the file. */
function atTheEnd(corefile: string, lines: readonly string[]): string {
  return corefile.replace(/^\}$/m, (line) => [...lines, line].join("\n"));
}

const HAIRPIN_PROXY = "hairpin-proxy.hairpin-proxy.svc.cluster.local";
const GEN2 = "haproxy-nginx.hairpin-proxy-gen2.svc.cluster.local";
const OUROBOROS = "ouroboros-proxy.ouroboros.svc.cluster.local";
/** Its release may have any name. */
const OTHER_RELEASE = "proxy.edge.svc.cluster.local";

export const DNS_TOOLS: readonly DnsTool[] = [
  {
    tool: "hairpin-proxy",
    proxy: HAIRPIN_PROXY,
    write: (corefile, names) =>
      atTheBeginning(
        corefile,
        names.map((name) => `    rewrite name ${name} ${HAIRPIN_PROXY} # Added by hairpin-proxy`),
      ),
  },
  {
    tool: "hairpin-proxy-gen2",
    proxy: GEN2,
    write: (corefile, names) =>
      atTheBeginning(
        corefile,
        names.map((name) => `    rewrite name ${name} ${GEN2} # managed-by: hairpin-proxy-gen2 | do-not-modify`),
      ),
  },
  {
    tool: "ouroboros",
    proxy: OUROBOROS,
    write: (corefile, names) =>
      atTheEnd(corefile, [
        "    # === BEGIN ouroboros (do not edit by hand) ===",
        ...names.map((name) => `    rewrite name ${name} ${OUROBOROS}.`),
        "    # === END ouroboros ===",
      ]),
  },
  {
    tool: "ouroboros",
    proxy: OTHER_RELEASE,
    key: "ouroboros.override",
    write: (_, names) => names.map((name) => `rewrite name ${name} ${OTHER_RELEASE}.\n`).join(""),
  },
];
