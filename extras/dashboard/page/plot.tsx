import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

/** One line of a plot. */
export interface Line {
  readonly label: string;
  /** Name of a custom property of base.css. */
  readonly colour: string;
  /** One value for each point; null if it is not known. */
  readonly values: readonly (number | null)[];
}

interface PlotProps {
  readonly title: string;
  readonly unit: string;
  /** Unix seconds, ascending. */
  readonly times: readonly number[];
  readonly lines: readonly Line[];
}

const HEIGHT_PX = 180;
/** Width of a time label, including the gap after it, in pixels. */
const LABEL_PX = 70;
/** Shortest time span that a plot shows. */
const LEAST_SECONDS = 60;

/** Lines over time. The newest values are also shown as text, for people who cannot see the lines. */
export function Plot({ title, unit, times, lines }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);
  const labels = lines.map(({ label }) => label).join("\n");
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const resized = new ResizeObserver(() => drawn.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    const draw = () => {
      drawn.current?.destroy();
      drawn.current = new uPlot(optionsOf(element, lines), dataOf(times, lines), element);
    };
    draw();
    resized.observe(element);
    // The canvas does not follow a change of the page's colours by itself.
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", draw);
    return () => {
      scheme.removeEventListener("change", draw);
      resized.disconnect();
      drawn.current?.destroy();
      drawn.current = null;
    };
  }, [labels]);
  useEffect(() => drawn.current?.setData(dataOf(times, lines)), [times, lines]);
  return (
    <section class="plot" aria-label={title}>
      <h2>{title}</h2>
      <ul class="latest">
        {lines.map(({ label, colour, values }) => (
          <li key={label}>
            <span class="swatch" style={{ background: `var(${colour})` }} aria-hidden="true" />
            {label}: <b>{latest(values, unit)}</b>
          </li>
        ))}
      </ul>
      <div ref={place} aria-hidden="true" />
    </section>
  );
}

function latest(values: readonly (number | null)[], unit: string): string {
  const value = values.at(-1) ?? null;
  return value === null ? "unknown" : `${rounded(value)} ${unit}`;
}

function timeOfDay(unixSeconds: number): string {
  return new Date(unixSeconds * 1_000).toLocaleTimeString("en", { hour12: false });
}

function rounded(value: number): string {
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

function dataOf(times: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])];
}

function optionsOf(element: HTMLElement, lines: readonly Line[]): uPlot.Options {
  const style = getComputedStyle(element);
  const colourOf = (name: string) => {
    // The computed value of a custom property is not a colour, but that of `color` is.
    element.style.color = `var(${name})`;
    const { color } = style;
    element.style.color = "";
    return color;
  };
  const axis = { stroke: colourOf("--faint"), grid: { stroke: colourOf("--line"), width: 1 } };
  return {
    width: element.clientWidth,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      // Shows at least a minute, up to the newest point. For a single point, uPlot would propose a whole day after
      // it.
      x: {
        range: ({ data: [times] }, first, last) => {
          const end = times.at(-1) ?? last;
          return [Math.min(first, end - LEAST_SECONDS), end];
        },
      },
      y: { range: (_plot, _low, high) => [0, Math.max(high, 1) * 1.1] },
    },
    axes: [
      // Labels have no date: a second line of labels would overlap on a narrow page.
      { ...axis, space: LABEL_PX, values: (_plot, splits) => splits.map(timeOfDay) },
      { ...axis, size: 56 },
    ],
    series: [{}, ...lines.map(({ label, colour }) => ({ label, stroke: colourOf(colour), width: 2 }))],
  };
}
