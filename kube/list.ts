import { hasCode, SwitchbackError } from "../errors/errors.ts";
import type { KubeClient, ReadOptions } from "./client.ts";
import type { Query } from "./paths.ts";
import { yieldToLoop } from "./time.ts";
import type { ApiList } from "./types.ts";

/** Objects per page. By measurement, larger pages cost memory and smaller ones time (250 to 500 is the flat part). */
export const PAGE_SIZE = 500;
/** A list whose continue token keeps expiring fails after this many restarts. */
const MAX_RESTARTS = 3;

/** A paged list. `restart` is called when the continue token expired between two pages: discard earlier pages. */
interface PagedList<T> {
  client: Pick<KubeClient, "get">;
  path: string;
  query?: Query;
  options?: ReadOptions;
  onPage: (items: readonly T[]) => void;
  restart: () => void;
}

/** Reads all pages, and yields to the event loop between them. Returns the resourceVersion of the list. */
export async function listPages<T>(list: PagedList<T>): Promise<string> {
  for (let restarts = 0; ; restarts++) {
    try {
      return await onePass(list);
    } catch (error) {
      if (!hasCode(error, "kube-expired") || restarts === MAX_RESTARTS) throw error;
      list.restart();
    }
  }
}

async function onePass<T>({ client, path, query, options, onPage }: PagedList<T>): Promise<string> {
  let token: string | undefined;
  for (;;) {
    const page = await client.get<ApiList<T>>(path, { limit: PAGE_SIZE, ...query, continue: token }, options);
    const version = page.metadata?.resourceVersion;
    // Another object, or a page of another server, would count as an empty list, which would clear the cache.
    if (!version || !(Array.isArray(page.items) || page.items === null)) {
      throw new SwitchbackError("data-corrupt", `GET ${path}: the response is not a list`);
    }
    onPage(page.items ?? []);
    token = page.metadata?.continue;
    if (!token) return version;
    await yieldToLoop();
  }
}

/** All pages in one array. */
export async function listAll<T>(
  client: Pick<KubeClient, "get">,
  path: string,
  query?: Query,
  options?: ReadOptions,
): Promise<{ items: T[]; resourceVersion: string }> {
  let items: T[] = [];
  const resourceVersion = await listPages<T>({
    client,
    path,
    ...(query === undefined ? {} : { query }),
    ...(options === undefined ? {} : { options }),
    onPage: (page) => {
      for (const item of page) items.push(item);
    },
    restart: () => {
      items = [];
    },
  });
  return { items, resourceVersion };
}
