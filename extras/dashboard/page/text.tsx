import { Fragment } from "preact";
import type { Reason } from "#hostmap/types.ts";
import { printable } from "#lib/errors/printable.ts";
import type { CodeAdvice } from "../server/codes.ts";

/**
 * A text of the cluster as it is shown: characters that change the direction of text, or are not seen, by their
 * escapes.
 */
export const plain = printable;

/** More than a name has that DNS takes. What has more is no name, and breaks anywhere. */
const MAX_BREAKS = 128;

/** A name that breaks after its dots and slashes if a line is too short. Copied text has the name alone. */
export function Dotted({ name }: { readonly name: string }) {
  const parts = plain(name).split(/(?<=[./])/, MAX_BREAKS + 2);
  if (parts.length > MAX_BREAKS + 1) return <>{plain(name)}</>;
  return (
    <>
      {parts.map((part, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </>
  );
}

/** A reason with what it means and what to do, as docs/codes.md has it. */
export function ReasonText({ reason, advice, cures }: ReasonTextProps) {
  const known = Object.hasOwn(advice, reason.code) ? advice[reason.code] : undefined;
  return (
    <div class="reason">
      <code>{plain(reason.code)}</code> {plain(reason.text)}
      {(cures ?? (known === undefined ? [] : [known.remedy])).map((cure) => (
        <p key={cure}>
          <b>What to do:</b> <Ticked text={plain(cure)} />
        </p>
      ))}
    </div>
  );
}

interface ReasonTextProps {
  readonly reason: Reason;
  readonly advice: Readonly<Record<string, CodeAdvice>>;
  /** In place of the code's remedy. */
  readonly cures?: readonly string[] | undefined;
}

/** Text of the documentation, or of a cure: what stands between backticks is code. */
export function Ticked({ text }: { readonly text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

/** In place of what only the status says. The head of the page has the reason. */
export function StatusNotKnown({ trouble }: { readonly trouble: string | undefined }) {
  return <p class="none">{trouble === undefined ? "Not known yet." : "Not known: the status cannot be read."}</p>;
}

/** A state in words and in colour. */
export function Badge({
  kind,
  children,
}: {
  readonly kind: "good" | "warn" | "bad" | "idle";
  readonly children: string;
}) {
  return <span class={`badge ${kind}`}>{children}</span>;
}

export function count(value: number): string {
  return value.toLocaleString("en");
}
