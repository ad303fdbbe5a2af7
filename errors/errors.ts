/**
 * Every error that Switchback throws on purpose: one table, codes never reused.
 * Retryable or fatal belongs to the error, so that no caller has to guess.
 */
const ERRORS = {
  /** The configuration does not parse or does not fit the schema. The process exits with 2. */
  "config-invalid": { retryable: false },
  /** An object given by a person (a YAML file, a flag, an annotation) is malformed. */
  "input-invalid": { retryable: false },
  /** The API server answered, with a status that is not a success. `status` holds it. */
  "kube-status": { retryable: true },
  /** The API server could not be reached, or went silent. */
  "kube-unreachable": { retryable: true },
  /** The watch window was lost (HTTP 410): list again. */
  "kube-expired": { retryable: true },
  /** What was read back cannot be parsed as what it should be. */
  "data-corrupt": { retryable: true },
  /** A certificate or key does not load or does not match. */
  "cert-invalid": { retryable: true },
  /** Leaving cannot go on: pods hold addresses that would be given to others, or a controller still runs. */
  "still-held": { retryable: true },
  /** A listener could not be bound. */
  "listen-failed": { retryable: false },
  /** The relay engine that the configuration asks for does not work on this machine. */
  "engine-unavailable": { retryable: false },
} as const;

type ErrorCode = keyof typeof ERRORS;

/** An error with a stable code, a sentence for people, and (where there is one) its cause. */
export class SwitchbackError extends Error {
  override readonly name = "SwitchbackError";
  readonly code: ErrorCode;
  readonly retryable: boolean;
  /** The HTTP status of the API server's answer, with `kube-status`. */
  readonly status: number | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; status?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryable = ERRORS[code].retryable;
    this.status = options.status;
  }
}

/** Whether `error` is ours and has this code. */
export function hasCode(error: unknown, code: ErrorCode): error is SwitchbackError {
  return error instanceof SwitchbackError && error.code === code;
}

/** The API server's status behind an error, if it is one: 404, 409, ... */
export function statusOf(error: unknown): number | undefined {
  return error instanceof SwitchbackError ? error.status : undefined;
}

/** Causes behind a cause that are told; a chain may bite its own tail. */
const MAX_CAUSES = 8;

/** One line for a log or a person, with the chain of causes. Never holds a body or a secret: causes carry messages only. */
export function describeError(error: unknown): string {
  const messages: string[] = [];
  for (let cause = error; cause !== undefined && messages.length <= MAX_CAUSES; cause = causeOf(cause)) {
    messages.push(messageOf(cause));
  }
  return messages.join(": ").replace(/\s*[\r\n]+\s*/g, " ");
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined;
}

/** Node's error for a host with several addresses has no message of its own, only those of its tries. */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message === "" && error instanceof AggregateError) return error.errors.map(messageOf).join(", ");
  return error.message === "" ? error.name : error.message;
}
