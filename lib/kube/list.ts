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

interface PagedList {
  client: Getter;
  path: string;
  query?: Query;
  options?: ReadOptions;
}

interface Page<T> {
  items: readonly T[];
  /** The version of the list, the same for all pages. */
  resourceVersion: string;
  /** The token of the next page. Empty or undefined: this page is the last one. */
  next: string | undefined;
}

/**
 * Reads all pages, and yields to the event loop between them. If a page has more than `PAGE_BYTES`, it stops reading
 * and requests half as many objects, down to one. Throws `kube-expired` if the rest can no longer be read: discard the
 * pages before.
 */
export async function* listPages<T>(list: PagedList): AsyncGenerator<Page<T>, void> {
  const most = Number(list.query?.limit ?? PAGE_SIZE);
  let limit = most;
  let token: string | undefined;
  for (;;) {
    const page = await readPage<T>(list, limit, token);
    if (page === undefined) {
      limit = Math.floor(limit / 2);
      continue;
    }
    limit = Math.min(most, limit * 2);
    yield page;
    if (!page.next) return;
    token = page.next;
    await yieldToLoop();
  }
}

/** Reads one page, or returns undefined if it is too long and could be shorter. */
async function readPage<T>(list: PagedList, limit: number, token: string | undefined): Promise<Page<T> | undefined> {
  const { client, path, query, options } = list;
  const maxBytes = limit === 1 ? {} : { maxBytes: PAGE_BYTES };
  const request = client.get<ApiList<T>>(path, { ...query, limit, continue: token }, { ...options, ...maxBytes });
  const page = await (limit === 1 ? request : request.catch(ignoreTooLong));
  if (page === undefined) return undefined;
  const { resourceVersion, continue: next } = page.metadata ?? {};
  const items = itemsOfList(page);
  // Without this check, another object or a page of another server would count as an empty list and clear the cache.
  if (!resourceVersion || items === undefined) {
    throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not a list`);
  }
  return { items, resourceVersion, next };
}

function ignoreTooLong(error: unknown): undefined {
  if (!(error instanceof TooLongError)) throw error;
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
  for await (const { items, resourceVersion } of listPages<T>({ client, path, query, options })) {
    for (const item of items) all.items.push(item);
    all.resourceVersion = resourceVersion;
  }
  return all;
}
