import { Fragment } from "preact";
import type { Reason } from "#hostmap/types.ts";
import { printable } from "#lib/errors/printable.ts";
import type { CodeAdvice } from "../server/codes.ts";

/**
 * Makes a text of the cluster safe to show. Characters that are invisible, or that change the direction of text,
 * become escapes.
 */
export const plain = printable;

/** More parts than any name in DNS has. A text with more is not a name, and breaks anywhere. */
const MAX_BREAKS = 128;

/** A name that may break after its dots and slashes. Copied text contains only the name. */
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

/** A reason and what to do about it: the cures, or else the remedy of docs/codes.md. */
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
  /** Shown instead of the code's remedy. */
  readonly cures?: readonly string[] | undefined;
}

/** Text of the documentation, or of a cure. Text between backticks is shown as code. */
export function Ticked({ text }: { readonly text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part))}</>;
}

/** Shown instead of data that only the status has. The head of the page shows the reason. */
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
