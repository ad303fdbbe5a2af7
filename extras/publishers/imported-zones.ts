import type { Reason } from "#hostmap/types.ts";
import { type Corefile, parseCorefile } from "./corefile.ts";
import { type ServerZones, serverZones } from "./server-zones.ts";

interface ImportingFile {
  /** Where the Corefile is, and where the files that it imports are, for people. */
  readonly corefilePlace: string;
  readonly filesPlace: string;
  /** Undefined: there is no Corefile. */
  readonly corefile: string | undefined;
  /** The files, by name; ours may be among them. */
  readonly files: Readonly<Record<string, string>>;
  /** The name of our file. */
  readonly own: string;
}

/**
 * The server blocks of a Corefile and of the files that it imports, without ours; a Reason if it does not import
 * ours, or is unreadable.
 */
export function importedZones(of: ImportingFile): ServerZones | Reason {
  const { corefilePlace, own } = of;
  if (of.corefile === undefined) return { code: "publisher-no-corefile", text: `there is no ${corefilePlace}` };
  const corefile = parseCorefile(of.corefile);
  if (typeof corefile === "string") return unreadable(corefilePlace, corefile);
  if (!isImported(corefile, own)) return notImported(corefile, of);
  const others: Corefile[] = [];
  for (const [name, content] of Object.entries(of.files)) {
    if (name === own || !isImported(corefile, name)) continue;
    const other = parseCorefile(content);
    if (typeof other === "string") return unreadable(`key ${name} of the ${of.filesPlace}`, other);
    others.push(other);
  }
  const zones = serverZones(corefile, others);
  return zones.reloads ? zones : noReload(corefilePlace);
}

export function unreadable(place: string, why: string): Reason {
  return { code: "publisher-corefile-unreadable", text: `the ${place} does not parse, and is left alone: ${why}` };
}

export function noReload(place: string): Reason {
  const text = `the ${place} has no plugin \`reload\`: CoreDNS would not read a change`;
  return { code: "publisher-no-reload", text };
}

function notImported({ imports, innerImports }: Corefile, { corefilePlace, own }: ImportingFile): Reason {
  const isInside = innerImports.some((pattern) => takes(pattern, own));
  const found = imports.length === 0 ? "it imports nothing there" : `it imports ${imports.join(", ")}`;
  return {
    code: "publisher-not-imported",
    text: isInside
      ? `the ${corefilePlace} imports ${own} inside of a server block, where no other server block may be`
      : `the ${corefilePlace} does not import ${own} outside of its server blocks: ${found}`,
  };
}

function isImported({ imports }: Corefile, file: string): boolean {
  return imports.some((pattern) => takes(pattern, file));
}

/** Whether an import's pattern, such as `custom/*.server`, takes a file of this name. CoreDNS allows one wildcard. */
function takes(pattern: string, file: string): boolean {
  const last = pattern.slice(pattern.lastIndexOf("/") + 1);
  const [head = "", tail] = last.split("*");
  if (tail === undefined) return last === file;
  return file.length >= head.length + tail.length && file.startsWith(head) && file.endsWith(tail);
}
