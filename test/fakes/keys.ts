import { type MakeKey, makeRsaKey } from "#certs/issue.ts";

/** Number of keys. It is large enough that no two CAs that are trusted together share a key. */
export const KEY_POOL = 8;
const keys: ReturnType<MakeKey>[] = [];
let taken = 0;

/** Returns real keys, in turn. They are made only once, because making one takes up to a second on a busy machine. */
export const pooledKey: MakeKey = () => {
  const at = taken % KEY_POOL;
  taken += 1;
  const key = keys[at] ?? makeRsaKey();
  keys[at] = key;
  return key;
};
