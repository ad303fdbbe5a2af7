/** The value of a key; a missing one is created first. Also for a WeakMap. */
export function getOrAdd<K, V>(
  map: { get(key: K): V | undefined; set(key: K, value: V): unknown },
  key: K,
  create: () => V,
): V {
  let value = map.get(key);
  if (value === undefined) {
    value = create();
    map.set(key, value);
  }
  return value;
}

export function addTo<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const values = map.get(key);
  // push() on an empty array reserves 17 slots. Almost every array here has one element.
  if (values === undefined) map.set(key, [value]);
  else values.push(value);
}

export function removeFrom<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const rest = (map.get(key) ?? []).filter((other) => other !== value);
  if (rest.length === 0) map.delete(key);
  else map.set(key, rest);
}
