import { isMap, isNode, isScalar, isSeq, type Node, type Pair, type YAMLMap, type YAMLSeq } from "yaml";

/** Offsets in the parsed text. */
export type Range = readonly [start: number, end: number];

/** The pair with a key. Ignores merge keys. */
export function pairOf(map: YAMLMap, key: string): Pair | undefined {
  return map.items.find((pair) => isScalar(pair.key) && pair.key.value === key);
}

/** Whether a node has its own text. The null of `key:` has none, and its range is somewhere after the colon. */
export function hasSource(node: Node): boolean {
  return !(isScalar(node) && node.value === null && node.source === "");
}

/** The offset where a node begins. */
export function startOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

/** The range of a node, from its start to the end of its content. */
export function rangeOf(node: unknown): Range {
  return [startOf(node), contentEnd(node)];
}

/** The range of a pair, from its key to the end of its value's content. */
export function rangeOfPair(pair: Pair): Range {
  return [startOf(pair.key), endOfPair(pair)];
}

/** The offset after the colon of a pair; without a colon, the offset after the key. */
export function colonOf(pair: Pair): number {
  const colon = pair.srcToken?.sep?.find(({ type }) => type === "map-value-ind");
  return colon === undefined ? contentEnd(pair.key) : colon.offset + 1;
}

/** The end of a pair's value; if the value has no text, the end of the colon. */
export function endOfPair(pair: Pair): number {
  return isNode(pair.value) && hasSource(pair.value) ? contentEnd(pair.value) : colonOf(pair);
}

/** The end of a node's content, without the spaces and comments after it. */
export function contentEnd(node: unknown): number {
  if (isMap(node) && !node.flow) {
    const last = node.items.at(-1);
    if (last !== undefined) return endOfPair(last);
  }
  if (isSeq(node) && !node.flow && node.items.length > 0) {
    return Math.max(dashOf(node, node.items.length - 1) + 1, contentEnd(node.items.at(-1)));
  }
  return isNode(node) && hasSource(node) ? (node.range?.[1] ?? 0) : 0;
}

/** The offset of the dash before an item of a block list. */
export function dashOf(seq: YAMLSeq, index: number): number {
  const items = seq.srcToken?.type === "block-seq" ? seq.srcToken.items : [];
  return items[index]?.start.find(({ type }) => type === "seq-item-ind")?.offset ?? 0;
}
