/** The code of every error that Switchback throws on purpose. Codes are never reused. */
type ErrorCode =
  /** The configuration does not parse or does not fit the schema. The process exits with 2. */
  | "config-invalid"
  /** User input (a YAML file, a flag, an annotation) is malformed. */
  | "input-invalid"
  /** The API server answered with an error status. `status` holds it. */
  | "kube-status"
  /** The API server could not be reached, or stopped responding. */
  | "kube-unreachable"
  /** The resource version has expired (HTTP 410): list again. */
  | "kube-expired"
  /** The leader's term has ended. It must not write any more, because another leader may be active. */
  | "term-over"
  /** The controller shows its status only to requests with its key. */
  | "status-refused"
  /** Stored data cannot be parsed. */
  | "data-corrupt"
  /** A certificate or key does not load or does not match. */
  | "pair-invalid"
  /** The uninstall cannot continue: pods hold addresses that would be reassigned, or a controller still runs. */
  | "still-held"
  /** The API server gets no answer from the webhook. */
  | "webhook-silent"
  /** The user did not confirm a change, or the command could not ask. Nothing was changed. */
  | "declined"
  /** A listener could not be bound. */
  | "listen-failed"
  /** The configured relay engine does not work on this host. */
  | "engine-unavailable";

/** An error with a stable code, a message for users, and an optional cause. */
export class SwitchbackError extends Error {
  override readonly name = "SwitchbackError";
  readonly code: ErrorCode;
  /**
   * With `kube-status`, the HTTP status of the API server's response. With `input-invalid`, the status of our answer,
   * if it is not 400.
   */
  readonly status: number | undefined;

  constructor(code: ErrorCode, message: string, options: { cause?: unknown; status?: number } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.status = options.status;
  }
}

/** Whether `error` is a SwitchbackError with this code. */
export function hasCode(error: unknown, code: ErrorCode): error is SwitchbackError {
  return error instanceof SwitchbackError && error.code === code;
}

/** Returns the HTTP status of the API server's response that caused the error (404, 409, ...), if any. */
export function statusOf(error: unknown): number | undefined {
  return error instanceof SwitchbackError ? error.status : undefined;
}

/** Maximum number of causes in a description. A chain of causes may be cyclic. */
const MAX_CAUSES = 8;

/** Describes an error and its chain of causes on one line. It uses only messages, so no body and no secret appears. */
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

/**
 * Returns the message of an error. Node's error for a host with several addresses has none, but each attempt has one.
 */
function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.message === "" && error instanceof AggregateError) return error.errors.map(messageOf).join(", ");
  return error.message === "" ? error.name : error.message;
}
