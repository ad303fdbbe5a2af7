import { SwitchbackError } from "#lib/errors/errors.ts";
import { TooLongError } from "./body.ts";
import type { Query } from "./paths.ts";
import { yieldToLoop } from "./time.ts";
import type { ApiList, ReadOptions } from "./types.ts";

/**
 * Objects per page. According to measurements, larger pages cost memory and smaller ones time (250 to 500 is the flat
 * part).
 */
export const PAGE_SIZE = 500;
/**
 * Maximum number of bytes of a page with more than one object. Tenants choose how large their objects are. A page is
 * in memory several times while it is parsed, and parsing this much takes 20 ms. Ordinary pages have a third of it.
 */
const PAGE_BYTES = 3 * 1024 * 1024;

/** A client that reads a page, for example a `KubeClient`. */
interface Getter {
  get<T>(path: string, query?: Query, options?: ReadOptions): Promise<T>;
}

/**
 * Reads all pages, and yields to the event loop between them. If a page has more than `PAGE_BYTES`, it stops reading
 * and requests half as many objects, down to one. `resourceVersion` is the version of the list, the same for all pages.
 * Throws `kube-expired` if the rest can no longer be read: discard the pages before.
 */
export async function* listPages<T>(
  client: Getter,
  path: string,
  query: Query = {},
  options: ReadOptions = {},
): AsyncGenerator<{ readonly items: readonly T[]; readonly resourceVersion: string }, void> {
  const most = Number(query.limit ?? PAGE_SIZE);
  let limit = most;
  let token: string | undefined;
  for (;;) {
    const bounded = { ...options, ...(limit > 1 && { maxBytes: PAGE_BYTES }) };
    const page = await client.get<ApiList<T>>(path, { ...query, limit, continue: token }, bounded).catch((error) => {
      if (limit === 1 || !(error instanceof TooLongError)) throw error;
    });
    if (page === undefined) {
      limit = Math.floor(limit / 2);
      continue;
    }
    const { resourceVersion, continue: next } = page.metadata ?? {};
    const items = itemsOfList(page);
    // Without this check, another object or a page of another server would count as an empty list and clear the cache.
    if (!resourceVersion || items === undefined)
      throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not a list`);
    yield { items, resourceVersion };
    if (!next) return;
    token = next;
    limit = Math.min(most, limit * 2);
    await yieldToLoop();
  }
}

/** Returns the objects of a list, or undefined if it is not a list. Every object of Kubernetes has metadata. */
export function itemsOfList<T>({ items }: ApiList<T>): readonly T[] | undefined {
  if (items === null) return [];
  const isObject = (item: unknown) => typeof item === "object" && item !== null && "metadata" in item;
  return Array.isArray(items) && items.every(isObject) ? items : undefined;
}

/** All pages in one array. */
export async function listAll<T>(
  client: Getter,
  path: string,
  query: Query = {},
  options: ReadOptions = {},
): Promise<{ items: T[]; resourceVersion: string }> {
  const all = { items: [] as T[], resourceVersion: "" };
  for await (const { items, resourceVersion } of listPages<T>(client, path, query, options)) {
    for (const item of items) all.items.push(item);
    all.resourceVersion = resourceVersion;
  }
  return all;
}
