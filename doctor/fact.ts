import type { Reason } from "#hostmap/types.ts";
import { describeError, statusOf } from "#lib/errors/errors.ts";

/** A fact, or the reason why it is unknown. */
export type Fact<T> = { readonly known: true; readonly value: T } | { readonly known: false; readonly reason: Reason };

/** A permission in RBAC's terms. Without a namespace, it means all namespaces. */
interface Permission {
  readonly verb: string;
  readonly resource: string;
  readonly namespace?: string;
  readonly name?: string;
}

export function known<T>(value: T): Fact<T> {
  return { known: true, value };
}

export function notKnown(code: string, text: string): { readonly known: false; readonly reason: Reason } {
  return { known: false, reason: { code, text } };
}

/** Describes a permission: `list services in all namespaces`. */
export function describePermission({ verb, resource, namespace, name }: Permission): string {
  const which = name === undefined ? resource : `${resource} ${name}`;
  return `${verb} ${which} in ${namespace === undefined ? "all namespaces" : `the namespace ${namespace}`}`;
}

/** The unknown fact of a call that RBAC refused. */
export function permissionMissing(permission: Permission): { readonly known: false; readonly reason: Reason } {
  return notKnown("right-missing", `missing permission: ${describePermission(permission)}`);
}

/** Reads a fact. Never throws: a failed call yields an unknown fact. With `absent`, a 404 yields that value. */
export async function readFact<T>(
  permission: Permission,
  call: () => Promise<T>,
  absent?: { readonly value: T },
): Promise<Fact<T>> {
  try {
    return known(await call());
  } catch (error) {
    const status = statusOf(error);
    if (status === 404 && absent !== undefined) return known(absent.value);
    if (status === 403 || status === 401) return permissionMissing(permission);
    return notKnown("not-read", describeError(error));
  }
}

/** Maps the value of a known fact. */
export function mapFact<T, U>(fact: Fact<T>, map: (value: T) => U): Fact<U> {
  return fact.known ? known(map(fact.value)) : fact;
}
