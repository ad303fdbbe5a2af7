import type { ComponentChildren } from "preact";
import { replaceQuery } from "./route.ts";

interface SearchFormProps {
  /** What can be found by typing. */
  readonly find: string;
  readonly typed: string;
  /** Which rows can be shown, with what people read. */
  readonly filters: ReadonlyArray<readonly [filter: string, label: string]>;
  readonly shown: string;
  /** How many rows are found. */
  readonly found: string;
  readonly children?: ComponentChildren;
}

/** What a list is searched and filtered by: both are in the page's address. */
export function SearchForm({ find, typed, filters, shown, found, children }: SearchFormProps) {
  return (
    <search class="search">
      <label>
        {find}
        <input
          type="search"
          value={typed}
          spellcheck={false}
          onInput={(event) => replaceQuery("q", event.currentTarget.value)}
        />
      </label>
      <label>
        Show
        <select value={shown} onChange={(event) => replaceQuery("show", event.currentTarget.value)}>
          {filters.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <p role="status">{found}</p>
      {children}
    </search>
  );
}
