import { useEffect, useState } from "preact/hooks";

/** The view and its parameters in the page's address, such as `#/names?q=shop&name=a.example.com`. */
interface Route {
  readonly path: string;
  readonly query: URLSearchParams;
}

function current(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path, query: new URLSearchParams(query) };
}

export function useRoute(): Route {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const moved = () => setRoute(current());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return route;
}

/** The address of a view with these parameters; empty ones are left out. */
export function linkTo(path: string, query: Readonly<Record<string, string>> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(given).toString();
  return text === "" ? `#/${path}` : `#/${path}?${text}`;
}

/** Changes a parameter without an entry in the history, for changes while somebody types. */
export function replaceQuery(name: string, value: string): void {
  const { path, query } = current();
  history.replaceState(null, "", linkTo(path, { ...Object.fromEntries(query), [name]: value }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
