import { isMap, isNode, isScalar, isSeq, type Node, type Pair, type YAMLMap, type YAMLSeq } from "yaml";

/** Offsets in the text that was parsed. */
export type Range = readonly [start: number, end: number];

/** The pair of a key; merge keys are not followed. */
export function pairOf(map: YAMLMap, key: string): Pair | undefined {
  return map.items.find((pair) => isScalar(pair.key) && pair.key.value === key);
}

/** Whether a node has text of its own: the null of `key:` has none, and its range is somewhere behind. */
export function hasSource(node: Node): boolean {
  return !(isScalar(node) && node.value === null && node.source === "");
}

/** Where a node begins. */
export function startOf(node: unknown): number {
  return isNode(node) ? (node.range?.[0] ?? 0) : 0;
}

/** A node, from its start to the end of its content. */
export function rangeOf(node: unknown): Range {
  return [startOf(node), contentEnd(node)];
}

/** A pair, from its key to the end of its value's content. */
export function rangeOfPair(pair: Pair): Range {
  return [startOf(pair.key), endOfPair(pair)];
}

/** The offset behind the colon of a pair; behind its key, if it has none. */
export function colonOf(pair: Pair): number {
  const colon = pair.srcToken?.sep?.find(({ type }) => type === "map-value-ind");
  return colon === undefined ? contentEnd(pair.key) : colon.offset + 1;
}

/** The end of a pair's value; of the colon, if the value has no text. */
export function endOfPair(pair: Pair): number {
  return isNode(pair.value) && hasSource(pair.value) ? contentEnd(pair.value) : colonOf(pair);
}

/** The end of a node's content, without the blanks and comments behind it. */
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
