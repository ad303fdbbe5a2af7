import { type KeyPem, type MakeKey, makeRsaKey } from "#certs/issue.ts";

/** Enough that no two CAs which are trusted together share a key. */
export const KEY_POOL = 8;
const keys: Promise<KeyPem>[] = [];
let taken = 0;

/** Real keys, made once and then handed out in turn: making one takes up to a second on a busy machine. */
export const pooledKey: MakeKey = () => {
  const at = taken % KEY_POOL;
  taken += 1;
  const key = keys[at] ?? makeRsaKey();
  keys[at] = key;
  return key;
};
