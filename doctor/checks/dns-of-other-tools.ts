import type { ClusterFacts, DnsFileFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { unknown, warning } = findingsOf("cluster-dns");

const PAGE = "docs/migrating.md";
const UNINSTALLED = `uninstall that tool first (${PAGE}), then run`;
/** Maximum number of lines in a finding. */
const MAX_SHOWN = 3;
const MAX_LINE = 120;

/** How to recognize the lines of another tool, from its source code. */
interface Tool {
  readonly name: string;
  /** The end of each of its lines. */
  readonly suffix?: string;
  /** How its first and its last line begin. */
  readonly block?: readonly [begin: string, end: string];
  /**
   * The name of a key that holds only its lines, in a ConfigMap that the Corefile imports. Such a
   * file has no marks.
   */
  readonly key?: RegExp;
}

const TOOLS: readonly Tool[] = [
  { name: "hairpin-proxy", suffix: "# Added by hairpin-proxy" },
  { name: "hairpin-proxy-gen2", suffix: "# managed-by: hairpin-proxy-gen2 | do-not-modify" },
  {
    name: "ouroboros",
    block: ["# === BEGIN ouroboros", "# === END ouroboros"],
    key: /ouroboros/i,
  },
];
/** Matches a line without such a mark: somebody edited the line, or it is a comment about the tool. */
const MENTION = /hairpin-proxy|ouroboros/i;

/**
 * Reports lines of other tools in the files of the cluster's DNS, with the command that removes
 * them, and rewrites of mapped names.
 */
export function leftoverFindings({ clusterDns, install }: ClusterFacts): Finding[] {
  if (!clusterDns.known) return [unknown("the files of CoreDNS", clusterDns.reason.code, clusterDns.reason.text)];
  const map = install.map.known ? install.map.value?.map : undefined;
  const isMapped = (name: string) => map !== undefined && !("code" in map) && map.addressesOf(name) !== undefined;
  return clusterDns.value.flatMap((file) => {
    const lines = file.text.split("\n").map((line) => line.trim());
    const ofTools = TOOLS.map((tool) => ({ tool, found: linesOf(tool, file, lines) }));
    const known = new Set(ofTools.flatMap(({ found }) => found));
    const mentions = lines.filter((line) => MENTION.test(line) && !known.has(line));
    const rewritten = lines.filter((line) => isMapped(rewrittenName(line)) && !known.has(line) && !MENTION.test(line));
    return [
      ...ofTools.flatMap(({ tool, found }) => (found.length === 0 ? [] : [toolFinding(file, tool, found)])),
      ...(mentions.length === 0 ? [] : [mentionFinding(file, mentions)]),
      ...(rewritten.length === 0 ? [] : [rewriteFinding(file, rewritten)]),
    ];
  });
}

/** The lines of a tool. A block without its last line does not count: its removal would delete the rest of the file. */
function linesOf({ suffix, block, key }: Tool, file: DnsFileFacts, lines: readonly string[]): readonly string[] {
  if (key?.test(file.key)) return lines.filter((line) => line !== "");
  if (suffix !== undefined) return lines.filter((line) => line.endsWith(suffix));
  if (block === undefined) return [];
  const isBegin = (line: string) => line.startsWith(block[0]);
  const end = lines.findLastIndex((line) => line.startsWith(block[1]));
  const isClosed = lines.some(isBegin) && lines.findLastIndex(isBegin) < end;
  return isClosed ? lines.slice(lines.findIndex(isBegin), end + 1) : [];
}

/**
 * The command deletes only the tool's lines. `kubectl replace` sends the version that was read, so
 * no other change is lost.
 */
function removalOf({ suffix, block, key }: Tool, file: DnsFileFacts): string {
  const [namespace, name] = file.place.split("/");
  const kubectl = `kubectl -n ${namespace}`;
  if (key?.test(file.key)) {
    return `${kubectl} patch configmap ${name} --type=json -p '[{"op":"remove","path":"/data/${file.key}"}]'`;
  }
  const [begin, end] = (block ?? []).map((line) => `/^[[:space:]]*${line}/`);
  const lines = suffix === undefined ? `${begin},${end}` : `/${suffix}$/`;
  return `${kubectl} get configmap ${name} -o yaml | sed '${lines}d' | kubectl replace -f -`;
}

/** The name in `rewrite name [exact] NAME TARGET`; "" in any other line. */
function rewrittenName(line: string): string {
  const [plugin, ...words] = line.toLowerCase().split(/\s+/);
  if (plugin !== "rewrite") return "";
  const rest = words.filter((word) => !["continue", "stop", "name", "exact"].includes(word));
  return (rest[0] ?? "").replace(/\.$/, "");
}

function toolFinding(file: DnsFileFacts, tool: Tool, lines: readonly string[]): Finding {
  const evidence = `${lines.length} line(s) of ${tool.name}: ${excerpt(lines)}`;
  return warning(subjectOf(file), "dns-leftover", evidence, `${UNINSTALLED}: \`${removalOf(tool, file)}\``);
}

function mentionFinding(file: DnsFileFacts, lines: readonly string[]): Finding {
  const evidence = `${lines.length} line(s) that name another tool: ${excerpt(lines)}`;
  return warning(subjectOf(file), "dns-leftover", evidence, `${UNINSTALLED}: ${editOf(file)}`);
}

function rewriteFinding(file: DnsFileFacts, lines: readonly string[]): Finding {
  const evidence =
    `${lines.length} name(s) of the map are rewritten, for every type of record, which breaks DNS-01: ` +
    `${excerpt(lines)}`;
  return warning(subjectOf(file), "dns-rewritten", evidence, `remove these lines: ${editOf(file)} (${PAGE})`);
}

function editOf({ place }: DnsFileFacts): string {
  const [namespace, name] = place.split("/");
  return `\`kubectl -n ${namespace} edit configmap ${name}\``;
}

function subjectOf({ place, key }: DnsFileFacts): string {
  return `ConfigMap ${place}, key ${key}`;
}

function excerpt(lines: readonly string[]): string {
  const shown = lines.slice(0, MAX_SHOWN).map((line) => line.slice(0, MAX_LINE));
  return `${shown.join("; ")}${lines.length > MAX_SHOWN ? "; ..." : ""}`;
}
