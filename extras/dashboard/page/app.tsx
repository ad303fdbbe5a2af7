import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Components } from "./components.tsx";
import { Doctor } from "./doctor.tsx";
import { Names } from "./names.tsx";
import { Now } from "./now.tsx";
import { useRoute } from "./route.ts";
import type { PageState, View } from "./state.ts";
import { plain } from "./text.tsx";
import { Traffic } from "./traffic.tsx";
import { Workloads } from "./workloads.tsx";

const VIEWS = [
  ["now", "Now", Now],
  ["names", "Names", Names],
  ["workloads", "Workloads", Workloads],
  ["traffic", "Traffic", Traffic],
  ["components", "Components", Components],
  ["doctor", "Doctor", Doctor],
] as const;

/** The page: its head, the links to the views, and one view. */
export function App({ state }: { readonly state: PageState }) {
  const view = useView(state);
  const { path } = useRoute();
  const [id, title, Shown] = VIEWS.find(([name]) => name === path) ?? VIEWS[0];
  const heading = useRef<HTMLHeadingElement>(null);
  const shownBefore = useRef(id);
  // A layout effect runs before the browser paints the view, so the next key reaches the view, however busy the page
  // is.
  useLayoutEffect(() => {
    document.title = `${title} - Switchback`;
    // The focus makes a screen reader continue at the chosen view.
    if (shownBefore.current !== id) heading.current?.focus();
    shownBefore.current = id;
  }, [id, title]);
  return (
    <>
      <button type="button" class="skip" onClick={() => heading.current?.focus()}>
        Skip to content
      </button>
      <header>
        <strong class="brand">Switchback</strong>
        <span class="place">{plain(view.place)}</span>
        <Freshness view={view} />
        <nav aria-label="Views">
          {VIEWS.map(([name, label]) => (
            <a key={name} href={`#/${name}`} aria-current={name === id ? "page" : undefined}>
              {label}
            </a>
          ))}
        </nav>
      </header>
      <main>
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        <Shown view={view} />
      </main>
    </>
  );
}

/**
 * Age from which a status is not shown as live. The status is read at least once a minute, and a read fails after
 * half a minute.
 */
const STALE_MS = 120_000;
const LOOK_MS = 5_000;

/** Shows how old the status is, and why there is no newer one. */
function Freshness({ view: { at, trouble, connected } }: { readonly view: View }) {
  const now = useNow();
  const since = at === undefined ? "" : `; shown as of ${new Date(at).toLocaleTimeString()}`;
  if (!connected) return <span class="fresh bad" role="status">{`switchback dashboard does not answer${since}`}</span>;
  if (trouble !== undefined)
    return <span class="fresh bad" role="status">{`status unknown: ${plain(trouble)}${since}`}</span>;
  if (at === undefined)
    return (
      <span class="fresh" role="status">
        reading the status
      </span>
    );
  const minutes = Math.floor((now - at) / 60_000);
  if (now - at > STALE_MS)
    return <span class="fresh bad" role="status">{`nothing new for ${minutes} min${since}`}</span>;
  return <span class="fresh good">{`live, ${new Date(at).toLocaleTimeString()}`}</span>;
}

/** The current time, updated often enough to show that a status has become old. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

function useView(state: PageState): View {
  const [view, setView] = useState(state.view);
  useEffect(() => {
    setView(state.view);
    return state.subscribe(() => setView(state.view));
  }, [state]);
  return view;
}
