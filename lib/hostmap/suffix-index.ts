/** Finds the names below a suffix. */
export interface SuffixIndex {
  /** Returns the positions of the names below `example.com`, at any depth and without itself, in ascending order. */
  below(suffix: string): Uint32Array;
}

/** The names below one suffix. After a longer suffix was requested, also the same names by their next label. */
interface SuffixNode {
  readonly positions: Uint32Array;
  /** Number of characters of the suffix with its leading dot. */
  readonly length: number;
  children: ReadonlyMap<string, SuffixNode> | undefined;
}

const NOTHING = new Uint32Array();

/**
 * Indexes names by suffix, level by level, as suffixes are requested. Each level takes time for the names below its
 * parents, once, and 4 bytes for each of these names. So the index never takes more than twice the bytes of the
 * names, however many labels they have.
 */
export function createSuffixIndex(names: readonly string[]): SuffixIndex {
  const root: SuffixNode = { positions: Uint32Array.from(names.keys()), length: 0, children: undefined };
  return {
    below(suffix) {
      let node: SuffixNode | undefined = root;
      for (const label of suffix.split(".").reverse()) {
        node.children ??= childrenOf(node, names);
        node = node.children.get(label);
        if (node === undefined) return NOTHING;
      }
      return node.positions;
    },
  };
}

function childrenOf({ positions, length }: SuffixNode, names: readonly string[]): Map<string, SuffixNode> {
  const groups = new Map<string, number[]>();
  for (const position of positions) {
    const name = names[position] ?? "";
    const end = name.length - length;
    const dot = name.lastIndexOf(".", end - 1);
    // Without a dot, the name is the suffix itself.
    if (dot === -1) continue;
    const label = name.slice(dot + 1, end);
    const group = groups.get(label);
    if (group === undefined) groups.set(label, [position]);
    else group.push(position);
  }
  const children = new Map<string, SuffixNode>();
  for (const [label, group] of groups) {
    const below = group.length === positions.length ? positions : Uint32Array.from(group);
    children.set(label, { positions: below, length: length + label.length + 1, children: undefined });
  }
  return children;
}
