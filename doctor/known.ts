import { describeError, statusOf } from "../errors/errors.ts";
import type { Reason } from "../hostmap/types.ts";

/** A fact, or why it is not known. */
export type Known<T> = { readonly known: true; readonly value: T } | { readonly known: false; readonly reason: Reason };

/** A right as RBAC names it; without a namespace it is the whole cluster's. */
interface Right {
  readonly verb: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

export function known<T>(value: T): Known<T> {
  return { known: true, value };
}

export function notKnown(code: string, text: string): { readonly known: false; readonly reason: Reason } {
  return { known: false, reason: { code, text } };
}

/** A right in words: `list services in all namespaces`. */
export function describeRight({ verb, resource, namespace, name }: Right): string {
  const which = name === undefined ? resource : `${resource} ${name}`;
  return `${verb} ${which} in ${namespace === undefined ? "all namespaces" : `the namespace ${namespace}`}`;
}

/** The refusal of a call for want of a right. */
export function rightMissing(right: Right): { readonly known: false; readonly reason: Reason } {
  return notKnown("right-missing", `the right is missing to ${describeRight(right)}`);
}

/**
 * What a call answers; a failure is a fact that is not known, never an exception. With `absent`, what is not there (404) is
 * a fact as well.
 */
export async function learn<T>(
  right: Right,
  call: () => Promise<T>,
  absent?: { readonly value: T },
): Promise<Known<T>> {
  try {
    return known(await call());
  } catch (error) {
    const status = statusOf(error);
    if (status === 404 && absent !== undefined) return known(absent.value);
    if (status === 403 || status === 401) return rightMissing(right);
    return notKnown("not-read", describeError(error));
  }
}

/** Goes on with a fact that is known. */
export function mapKnown<T, U>(fact: Known<T>, change: (value: T) => U): Known<U> {
  return fact.known ? known(change(fact.value)) : fact;
}
