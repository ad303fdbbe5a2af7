/** The code of every error that Switchback throws on purpose. Codes are never reused. */
type ErrorCode =
  /** The configuration does not parse or does not fit the schema. The process exits with 2. */
  | "config-invalid"
  /** An object given by a person (a YAML file, a flag, an annotation) is malformed. */
  | "input-invalid"
  /** The API server answered, with a status that is not a success. `status` holds it. */
  | "kube-status"
  /** The API server could not be reached, or went silent. */
  | "kube-unreachable"
  /** The watch window was lost (HTTP 410): list again. */
  | "kube-expired"
  /** What was read back cannot be parsed as what it should be. */
  | "data-corrupt"
  /** A certificate or key does not load or does not match. */
  | "cert-invalid"
  /** Leaving cannot go on: pods hold addresses that would be given to others, or a controller still runs. */
  | "still-held"
  /** A listener could not be bound. */
  | "listen-failed"
  /** The relay engine that the configuration asks for does not work on this machine. */
  | "engine-unavailable";

/** An error with a stable code, a sentence for people, and (where there is one) its cause. */
export class SwitchbackError extends Error {
  override readonly name = "SwitchbackError";
  readonly code: ErrorCode;
  /** The HTTP status of the API server's answer, with `kube-status`. */
  readonly status: number | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; status?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
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
