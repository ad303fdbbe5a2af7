import type { Reason } from "#hostmap/types.ts";
import { type Corefile, parseCorefile } from "./corefile.ts";
import { type ServerZones, serverZones } from "./server-zones.ts";

interface ImportingFile {
  /** Where the Corefile is, and where its imported files are, for people. */
  readonly corefilePlace: string;
  readonly filesPlace: string;
  /** Undefined if there is no Corefile. */
  readonly corefile: string | undefined;
  /** The imported files, by name; ours may be among them. */
  readonly files: Readonly<Record<string, string>>;
  /** The name of our file. */
  readonly own: string;
}

/**
 * The zones, and how a Corefile imports our file: beside its server blocks, or inside the one that answers
 * everything.
 */
interface ImportedZones extends ServerZones {
  readonly isInside: boolean;
}

/**
 * The zones of a Corefile and of the files that it imports, without ours. A Reason if a file is unreadable, if the
 * Corefile does not reload, or if it does not import our file in exactly one of the two ways.
 *
 * AKS has `import custom/*.server` beside its server blocks, and `import custom/*.override` inside `.:53`
 * (learn.microsoft.com/azure/aks/coredns-custom). Cozystack has only the second
 * (packages/system/coredns/tests/__snapshot__/coredns_custom_test.yaml.snap).
 */
export function importedZones(of: ImportingFile): ImportedZones | Reason {
  const { corefilePlace, own } = of;
  if (of.corefile === undefined) return { code: "publisher-no-corefile", text: `there is no ${corefilePlace}` };
  const corefile = parseCorefile(of.corefile);
  if (typeof corefile === "string") return unreadable(corefilePlace, corefile);
  const others: Corefile[] = [];
  for (const [name, content] of Object.entries(of.files)) {
    if (name === own || !isImported(corefile.imports, name)) continue;
    const other = parseCorefile(content);
    if (typeof other === "string") return unreadable(`key ${name} of the ${of.filesPlace}`, other);
    others.push(other);
  }
  const zones = serverZones(corefile, others);
  const [isBeside, isInside] = [isImported(corefile.imports, own), isImported(zones.imports, own)];
  if (isBeside === isInside) return notImported(corefile, of, isBeside);
  return zones.reloads ? { ...zones, isInside } : noReload(corefilePlace);
}

export function unreadable(place: string, why: string): Reason {
  return { code: "publisher-corefile-unreadable", text: `the ${place} does not parse, and is left alone: ${why}` };
}

export function noReload(place: string): Reason {
  const text = `the ${place} has no plugin \`reload\`: CoreDNS would not read a change`;
  return { code: "publisher-no-reload", text };
}

function notImported(corefile: Corefile, { corefilePlace, own }: ImportingFile, isTwice: boolean): Reason {
  const inner = corefile.blocks.flatMap(({ imports }) => imports);
  const all = [...corefile.imports, ...inner];
  const found = all.length === 0 ? "it imports nothing" : `it imports ${all.join(", ")}`;
  const ways = "beside its server blocks, or inside of the one that answers everything";
  const why = isTwice
    ? `imports ${own} both ${ways.replace(", or", " and")}: choose a key that only one import takes`
    : `does not import ${own} ${ways}: ${found}`;
  return { code: "publisher-not-imported", text: `the ${corefilePlace} ${why}` };
}

function isImported(imports: readonly string[], file: string): boolean {
  return imports.some((pattern) => takes(pattern, file));
}

/** Whether an import's pattern, such as `custom/*.server`, matches this file name. CoreDNS allows one wildcard. */
function takes(pattern: string, file: string): boolean {
  const last = pattern.slice(pattern.lastIndexOf("/") + 1);
  const [head = "", tail] = last.split("*");
  if (tail === undefined) return last === file;
  return file.length >= head.length + tail.length && file.startsWith(head) && file.endsWith(tail);
}
