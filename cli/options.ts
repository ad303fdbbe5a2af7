import { InvalidArgumentError } from "commander";

/** RFC 1123 label. */
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** Whether the API server accepts `text` as the name of a namespace. */
export function isNamespace(text: string): boolean {
  return LABEL.test(text);
}

// Parsers of options. Each throws commander's InvalidArgumentError, which names the option, the value and the
// accepted values.

/** What `-o` accepts. */
export const FORMATS = ["text", "wide", "json", "yaml", "name"] as const;

/** Shells that have a completion script. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

/** Parses the name of a namespace. */
export function namespaceName(value: string): string {
  if (isNamespace(value)) return value;
  throw new InvalidArgumentError(
    "Expected the name of a namespace: 1 to 63 lower case letters, digits and inner hyphens.",
  );
}

/** The namespace that Switchback is installed in by default. */
export const DEFAULT_NAMESPACE = "switchback-system";

/** Refuses an empty value, as from `--kubeconfig "$UNSET"` in a script. It must not select the default. */
export function notEmpty(value: string): string {
  if (value.trim() !== "") return value;
  throw new InvalidArgumentError("It is empty: leave it out for the default.");
}

/** Parses the name of a user, which becomes a header of requests. */
export function userName(value: string): string {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  throw new InvalidArgumentError("Expected a user, such as jane or system:serviceaccount:shop:web.");
}

/** Collects the values of an option, which may be repeated (`-f a -f b`) or followed by several values (`-f a b`). */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, notEmpty(value)];
}

/** Parses a whole number from 1. */
export function positiveInteger(value: string): number {
  const count = Number(value);
  if (/^\d{1,9}$/.test(value) && count > 0) return count;
  throw new InvalidArgumentError("Expected a whole number from 1.");
}

/** Checks the form of an image reference; only the node knows whether the image exists. */
export function imageReference(value: string): string {
  if (/^[\w.-]+(?::\d+)?(?:\/[\w.-]+)*(?::[\w.-]+)?(?:@[\w+.-]+:[0-9a-fA-F]+)?$/.test(value)) return value;
  throw new InvalidArgumentError("Expected an image, such as registry.example.com/switchback:0.1.0.");
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { "": 1, s: 1, m: 60, h: 3600 };
const MAX_SECONDS = 24 * 3600;

/** Parses a time limit in seconds: `300`, or with a unit as in kubectl: `90s`, `5m`, `1h`. */
export function durationSeconds(value: string): number {
  const [, digits, unit = ""] = /^(\d{1,9})(s|m|h|)$/.exec(value) ?? [];
  const seconds = Number(digits) * (UNIT_SECONDS[unit] ?? Number.NaN);
  if (seconds > 0 && seconds <= MAX_SECONDS) return seconds;
  throw new InvalidArgumentError("Expected a number of seconds, or a time such as 90s, 5m or 1h, up to 24h.");
}
