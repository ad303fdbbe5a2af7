import { METADATA_LIST, METADATA_WATCH, TABLE } from "./accept.ts";
import { itemsOfList } from "./list.ts";
import type { Query } from "./paths.ts";
import type { ApiList, ApiObject } from "./types.ts";

/** Defines how to request objects from the API server, and how to extract them from its answers. */
export interface ObjectFormat {
  readonly listAccept: string | undefined;
  readonly watchAccept: string | undefined;
  readonly query: Query;
  /** Returns the objects of a page of a list, or undefined if it is not a list. */
  itemsOf(page: ApiList<ApiObject>): readonly ApiObject[] | undefined;
  /** Returns the object of a watch event, or undefined if the event has no object. */
  objectOf(sent: ApiObject): ApiObject | undefined;
}

/**
 * An object's metadata, and the cells of the requested columns, if any, by name. Cells without a value are left out.
 */
export interface TableObject extends ApiObject {
  readonly columns?: Readonly<Record<string, string>>;
}

interface Table extends ApiObject {
  readonly columnDefinitions?: ReadonlyArray<{ readonly name: string }> | null;
  readonly rows?: ReadonlyArray<{ readonly cells: readonly unknown[]; readonly object?: ApiObject }> | null;
}

/** The format for whole objects, or for their metadata only. */
export function objectFormat(metadataOnly: boolean): ObjectFormat {
  return {
    listAccept: metadataOnly ? METADATA_LIST : undefined,
    watchAccept: metadataOnly ? METADATA_WATCH : undefined,
    query: {},
    itemsOf: itemsOfList,
    objectOf: (sent) => sent,
  };
}

/**
 * The format for metadata and the named columns. The API server sends the names of the columns with each page, and
 * with the first event of a watch. Another API server may have other columns, so the names that came last define the
 * positions.
 */
export function tableFormat(columns: readonly string[]): ObjectFormat {
  let positions: ReadonlyArray<readonly [name: string, position: number]> = [];

  function rowsOf(table: Table): readonly TableObject[] | undefined {
    const { columnDefinitions, rows } = table;
    if (table.kind !== "Table" || !(rows === null || Array.isArray(rows))) return undefined;
    if (columnDefinitions) {
      const names = columnDefinitions.map(({ name }) => name);
      positions = columns.flatMap((name) => (names.includes(name) ? [[name, names.indexOf(name)] as const] : []));
    }
    const items = (rows ?? []).map(({ cells, object = {} }) => ({ ...object, columns: columnsOf(cells) }));
    return itemsOfList({ items });
  }

  function columnsOf(cells: readonly unknown[]): TableObject["columns"] {
    const said = positions.flatMap(([name, position]) => {
      const cell = cells[position];
      return typeof cell === "string" && cell !== "" && cell !== NO_VALUE ? [[name, cell] as const] : [];
    });
    return Object.fromEntries(said);
  }

  return {
    listAccept: TABLE,
    watchAccept: TABLE,
    query: { includeObject: "Metadata" },
    itemsOf: rowsOf,
    // An error is sent as a Status.
    objectOf: (sent) => (sent.kind === "Status" ? sent : rowsOf(sent)?.[0]),
  };
}

/** Kubernetes prints this for a missing value. */
const NO_VALUE = "<none>";
