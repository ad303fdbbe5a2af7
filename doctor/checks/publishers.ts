import type { Reason } from "../../hostmap/types.ts";
import type { PublisherState } from "../../snapshot/publisher-state.ts";
import type { ClusterFacts, DnsFileFacts } from "../facts.ts";
import { type Finding, findingsOf } from "../findings.ts";

const { ok, warning, broken, unknown } = findingsOf("cluster-dns");

const PAGE = "docs/publishers.md";
/** Sections of the configuration, by the name of the publisher. */
const SECTIONS = { "coredns-import": "corednsImport", coredns: "coredns", "external-dns": "externalDns" } as const;
/** A kubelet hands a ConfigMap to its pods within 90 seconds, and CoreDNS looks every 30 to 45. */
const LATE_MS = 300_000;
/** In the lines, and the keys, of tools that publish names in the cluster's DNS. */
const TOOLS = /hairpin-proxy|ouroboros/i;
/** Lines that are shown. */
const MAX_SHOWN = 3;
const MAX_LINE = 120;

/** What Switchback publishes in the cluster's DNS, and what other tools have left there. Nothing where there is nothing of either. */
export function checkPublishers(facts: ClusterFacts): Finding[] {
  return [...publisherFindings(facts), ...leftoverFindings(facts)];
}

function publisherFindings({ install, publishers, now }: ClusterFacts): Finding[] {
  const config = install.config.known ? install.config.value : undefined;
  const isOn = (name: keyof typeof SECTIONS) => config?.publishers[SECTIONS[name]].enabled === true;
  const names = (Object.keys(SECTIONS) as (keyof typeof SECTIONS)[]).filter(isOn);
  if (!publishers.known) {
    return names.map((name) => unknown(`publisher ${name}`, publishers.reason.code, publishers.reason.text));
  }
  const states = publishers.value;
  const silent = names.filter((name) => !states.has(name));
  return [
    ...silent.map((name) =>
      warning(
        `publisher ${name}`,
        "publisher-silent",
        "it is switched on, and has reported nothing yet",
        `see the pod of the Deployment switchback-publisher-${name}`,
      ),
    ),
    ...[...states].map(([name, state]) =>
      config !== undefined && Object.hasOwn(SECTIONS, name) && !isOn(name as keyof typeof SECTIONS)
        ? leftOver(name)
        : stateFinding(name, state, now),
    ),
    ...differing(states, now),
  ];
}

function leftOver(name: string): Finding {
  return warning(
    `publisher ${name}`,
    "publisher-left",
    "it is switched off, and what it has published was not taken out",
    `helm upgrade with publishers.remove=[${name}]`,
    `switchback publish ${name} --remove: ${PAGE}`,
  );
}

function stateFinding(name: string, state: PublisherState | Reason, now: number): Finding {
  const subject = `publisher ${name}`;
  if ("code" in state) return unknown(subject, state.code, state.text);
  const { problem, behindSince, names, leftOut, stopped, leaving } = state;
  const see = `docs/codes.md, and ${PAGE}`;
  if (leaving !== undefined) return ok(subject, "publisher-leaving", "what it has published is being taken out");
  if (problem !== undefined) {
    const report = stopped || names === 0 ? broken : warning;
    return report(subject, problem.code, problem.text, see);
  }
  if (behindSince !== undefined && now - behindSince > LATE_MS) {
    const minutes = Math.round((now - behindSince) / 60_000);
    const evidence = `readers have lacked the newest map for ${minutes} minutes`;
    return warning(subject, "publisher-behind", evidence, `the log of its pod, and that of CoreDNS; ${see}`);
  }
  const more = leftOut === 0 ? "" : `, without ${leftOut} others`;
  return ok(subject, "publisher-current", `${names} names in the ${state.place}${more}`);
}

/** Publishers with different maps answer some names differently; for some minutes that is how they follow. */
function differing(states: ReadonlyMap<string, PublisherState | Reason>, now: number): Finding[] {
  const settled = [...states].flatMap(([name, state]) =>
    "code" in state || state.revision === undefined ? [] : [{ name, state }],
  );
  const [first, ...others] = settled;
  const other = others.find(({ state }) => state.revision !== first?.state.revision);
  if (first === undefined || other === undefined) return [];
  const newest = Math.max(first.state.publishedAt ?? 0, other.state.publishedAt ?? 0);
  if (now - newest < LATE_MS) return [];
  const evidence = `${first.name} and ${other.name} have different maps, so they may answer a name differently`;
  return [warning("publishers", "publishers-differ", evidence, "see the finding of each of them")];
}

function leftoverFindings({ clusterDns, install }: ClusterFacts): Finding[] {
  if (!clusterDns.known) return [];
  const map = install.map.known ? install.map.value?.map : undefined;
  const isMapped = (name: string) => map !== undefined && !("code" in map) && map.addressesOf(name) !== undefined;
  return clusterDns.value.flatMap((file) => {
    const lines = file.text.split("\n").map((line) => line.trim());
    const tools = lines.filter((line) => TOOLS.test(line));
    const rewritten = lines.filter((line) => isMapped(rewrittenName(line)) && !tools.includes(line));
    return [
      ...(tools.length === 0 ? [] : [toolFinding(file, tools)]),
      ...(rewritten.length === 0 ? [] : [rewriteFinding(file, rewritten)]),
    ];
  });
}

/** The name in `rewrite name [exact] NAME TARGET`; "" in any other line. */
function rewrittenName(line: string): string {
  const [plugin, ...words] = line.toLowerCase().split(/\s+/);
  if (plugin !== "rewrite") return "";
  const rest = words.filter((word) => !["continue", "stop", "name", "exact"].includes(word));
  return (rest[0] ?? "").replace(/\.$/, "");
}

function toolFinding(file: DnsFileFacts, lines: readonly string[]): Finding {
  const evidence = `${lines.length} line(s) of another tool: ${excerpt(lines)}`;
  return warning(
    subjectOf(file),
    "dns-leftover",
    evidence,
    `after its own uninstall, which docs/migrating.md has: ${removalOf(file, lines)}`,
  );
}

/** The end of each line that hairpin-proxy adds. */
const HAIRPIN_MARK = "# Added by hairpin-proxy";

/** The command that removes the lines of another tool: exact where they are known to be a whole file or to end with a mark. */
function removalOf({ place, key }: DnsFileFacts, lines: readonly string[]): string {
  const [namespace = "", name = ""] = place.split("/");
  const kubectl = `kubectl -n ${namespace}`;
  if (TOOLS.test(key))
    return `\`${kubectl} patch configmap ${name} --type json -p '[{"op":"remove","path":"/data/${key}"}]'\``;
  if (lines.every((line) => line.endsWith(HAIRPIN_MARK)))
    return `\`${kubectl} get configmap ${name} -o yaml | sed '/${HAIRPIN_MARK}$/d' | kubectl replace -f -\``;
  return `\`${kubectl} edit configmap ${name}\``;
}

function rewriteFinding(file: DnsFileFacts, lines: readonly string[]): Finding {
  const evidence = `${lines.length} name(s) of the map are rewritten, for every type of record, which breaks DNS-01: ${excerpt(lines)}`;
  const [namespace = "", name = ""] = file.place.split("/");
  const edit = `\`kubectl -n ${namespace} edit configmap ${name}\``;
  return warning(subjectOf(file), "dns-rewritten", evidence, `remove these lines: ${edit} (docs/migrating.md)`);
}

function subjectOf({ place, key }: DnsFileFacts): string {
  return `ConfigMap ${place}, key ${key}`;
}

function excerpt(lines: readonly string[]): string {
  const shown = lines.slice(0, MAX_SHOWN).map((line) => line.slice(0, MAX_LINE));
  return `${shown.join("; ")}${lines.length > MAX_SHOWN ? "; ..." : ""}`;
}
