import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

/** Height of a row, as in views.css. All rows have the same height, so that the position of each is known. */
const ROW_PX = 40;
/** Number of extra rows above and below the visible ones. */
const SPARE_ROWS = 12;

/** A column of a table. */
export interface Column<Row> {
  readonly id: string;
  readonly title: string;
  /** Missing if the table cannot be sorted by this column. */
  readonly sort?: { readonly descending: boolean | undefined; readonly choose: () => void };
  readonly cell: (row: Row) => ComponentChildren;
}

interface RowsProps<Row> {
  readonly label: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string | number;
  readonly isChosen?: (row: Row) => boolean;
  /** Text that is shown if there are no rows. */
  readonly none: string;
}

/**
 * A table of any number of rows. Only visible rows are in the document. Two gaps have the height of the other rows.
 */
export function Rows<Row>({ label, columns, rows, keyOf, isChosen, none }: RowsProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null);
  const { first, last } = useRowsInSight(scroller, rows.length);
  if (rows.length === 0) return <p class="none">{none}</p>;
  return (
    // The keyboard must be able to reach a region that scrolls.
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without it the keyboard cannot scroll it
    <section class="rows" ref={scroller} tabIndex={0} aria-label={label}>
      <table aria-rowcount={rows.length + 1} aria-label={label}>
        <thead>
          <tr aria-rowindex={1}>
            {columns.map((column) => (
              <Head key={column.id} {...column} />
            ))}
          </tr>
        </thead>
        <tbody>
          <Gap rows={first} />
          {rows.slice(first, last).map((row, index) => (
            <tr key={keyOf(row)} aria-rowindex={first + index + 2} class={isChosen?.(row) ? "chosen" : undefined}>
              {columns.map(({ id, cell }) => (
                <td key={id} class={id}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
          <Gap rows={rows.length - last} />
        </tbody>
      </table>
    </section>
  );
}

function Head<Row>({ id, title, sort }: Column<Row>) {
  if (sort === undefined)
    return (
      <th class={id} scope="col">
        {title}
      </th>
    );
  const order = sort.descending === undefined ? "none" : sort.descending ? "descending" : "ascending";
  return (
    <th class={id} scope="col" aria-sort={order}>
      <button type="button" onClick={sort.choose}>
        {title}
        <span aria-hidden="true">{{ none: "", ascending: " ▲", descending: " ▼" }[order]}</span>
      </button>
    </th>
  );
}

/** A gap has only one cell: a narrow page hides columns, and a cell across all of them would show them again. */
function Gap({ rows }: { readonly rows: number }) {
  if (rows === 0) return null;
  return (
    <tr class="gap">
      <td style={{ height: `${rows * ROW_PX}px` }} />
    </tr>
  );
}

function useRowsInSight(scroller: { readonly current: HTMLElement | null }, total: number) {
  const [sight, setSight] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    // The position is rounded to several rows, so that most scroll events change nothing.
    const look = () => {
      const step = ROW_PX * (SPARE_ROWS / 2);
      const next = { top: Math.floor(element.scrollTop / step) * step, height: element.clientHeight };
      setSight((now) => (now.top === next.top && now.height === next.height ? now : next));
    };
    look();
    element.addEventListener("scroll", look, { passive: true });
    const resized = new ResizeObserver(look);
    resized.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      resized.disconnect();
    };
    // Without rows there is no table to observe.
  }, [scroller, total === 0]);
  const first = Math.max(0, Math.min(total, Math.floor(sight.top / ROW_PX)) - SPARE_ROWS);
  const last = Math.min(total, Math.ceil((sight.top + sight.height) / ROW_PX) + 2 * SPARE_ROWS);
  return { first, last };
}
