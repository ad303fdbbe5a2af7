import type { ComponentChildren } from "preact";
import { replaceQuery } from "./route.ts";

interface SearchFormProps {
  /** Label of the search field. */
  readonly find: string;
  readonly typed: string;
  /** The filters, each with its label. */
  readonly filters: ReadonlyArray<readonly [filter: string, label: string]>;
  readonly shown: string;
  /** Text about how many rows were found. */
  readonly found: string;
  readonly children?: ComponentChildren;
}

/** A form to search and filter a list. Both values are in the page's address. */
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
