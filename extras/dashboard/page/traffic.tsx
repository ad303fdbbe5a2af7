import { useMemo } from "preact/hooks";
import type { TrafficPoint } from "../server/messages.ts";
import { type Line, Plot } from "./plot.tsx";
import type { View } from "./state.ts";
import { plain } from "./text.tsx";

/** Maximum number of causes with a separate line. All other causes share one line. */
const MAX_CAUSES = 4;
const COLOURS = ["--bad", "--warn", "--link", "--good", "--faint"];

/** Connections, errors and latency over the last minutes. */
export function Traffic({ view: { traffic, measured } }: { readonly view: View }) {
  const times = useMemo(() => traffic.map(({ at }) => at / 1_000), [traffic]);
  const lines = useMemo(() => linesOf(traffic), [traffic]);
  return (
    <>
      {measured?.known === false && <p class="note bad">Unknown: {plain(measured.reason.text)}</p>}
      {traffic.length === 0 ? (
        <p class="none">
          {measured === undefined
            ? "No measurements yet, or no component provides any."
            : "The first rates come within some seconds."}
        </p>
      ) : (
        <div class="plots">
          <Plot title="New connections" unit="/s" times={times} lines={lines.accepted} />
          <Plot title="Open connections" unit="" times={times} lines={lines.open} />
          <Plot title="Errors by cause" unit="/s" times={times} lines={lines.errors} />
          <Plot title="Time to connect to ingress controllers" unit="ms" times={times} lines={lines.connect} />
          <Plot title="Pods admitted" unit="/s" times={times} lines={lines.admitted} />
        </div>
      )}
      <p class="faint">
        Measured since the page was first opened, over all replicas that answer. Times are upper bounds.
      </p>
    </>
  );
}

function linesOf(points: readonly TrafficPoint[]) {
  const line = (label: string, colour: string, read: (point: TrafficPoint) => number | undefined): Line => ({
    label,
    colour,
    values: points.map((point) => read(point) ?? null),
  });
  return {
    accepted: [line("accepted", "--link", ({ accepted }) => accepted)],
    open: [line("open", "--link", ({ open }) => open)],
    errors: errorLines(points, line),
    connect: [
      line("median", "--link", ({ connectMs }) => connectMs?.[0]),
      line("99th percentile", "--warn", ({ connectMs }) => connectMs?.[1]),
    ],
    admitted: [line("admitted", "--link", ({ admitted }) => admitted)],
  };
}

function errorLines(
  points: readonly TrafficPoint[],
  line: (label: string, colour: string, read: (point: TrafficPoint) => number | undefined) => Line,
): Line[] {
  const sums = new Map<string, number>();
  for (const { errors = {} } of points) {
    for (const [cause, rate] of Object.entries(errors)) sums.set(cause, (sums.get(cause) ?? 0) + rate);
  }
  const causes = [...sums].sort(([, one], [, other]) => other - one).map(([cause]) => cause);
  if (causes.length === 0) return [line("none", "--good", ({ errors }) => errors && 0)];
  const shown = causes.slice(0, MAX_CAUSES);
  const others = causes.slice(MAX_CAUSES);
  const colourOf = (index: number) => COLOURS[index] ?? "--faint";
  return [
    ...shown.map((cause, index) => line(plain(cause), colourOf(index), ({ errors }) => errors && (errors[cause] ?? 0))),
    ...(others.length === 0
      ? []
      : [
          line(
            "others",
            "--faint",
            ({ errors }) => errors && others.reduce((sum, cause) => sum + (errors[cause] ?? 0), 0),
          ),
        ]),
  ];
}
