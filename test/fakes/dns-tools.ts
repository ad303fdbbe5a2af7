// What other tools write into the configuration of the cluster's DNS. Users of Switchback may come from these tools.
// The texts have the form that each tool's source code gives them.

export interface DnsTool {
  readonly tool: string;
  /** The target of the names that it rewrites. */
  readonly proxy: string;
  /** The key of `coredns-custom` that it writes. Undefined: it writes into the Corefile. */
  readonly key?: string;
  /** Returns the text of its key, or the Corefile with its lines. */
  readonly write: (corefile: string, names: readonly string[]) => string;
}

/** Inserts lines after the first line of the root zone's block. Removes white space at both ends of the file. */
function atTheBeginning(corefile: string, lines: readonly string[]): string {
  return corefile.trim().replace(/^\.:53 \{$/m, (line) => [line, ...lines].join("\n"));
}

/** Inserts lines before the last line of the root zone's block, which is the last block of the file. */
function atTheEnd(corefile: string, lines: readonly string[]): string {
  return corefile.replace(/^\}$/m, (line) => [...lines, line].join("\n"));
}

const HAIRPIN_PROXY = "hairpin-proxy.hairpin-proxy.svc.cluster.local";
const GEN2 = "haproxy-nginx.hairpin-proxy-gen2.svc.cluster.local";
const OUROBOROS = "ouroboros-proxy.ouroboros.svc.cluster.local";
/** A release of this tool may have any name. */
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
