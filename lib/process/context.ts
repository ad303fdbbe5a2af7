/** The environment and outputs of a command. Only `cli/main.ts` reads the process' own. */
export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly progress: Progress;
}

/**
 * Standard output or standard error of a command. Text from tenants cannot control the terminal, whichever command
 * prints it.
 */
export interface Output {
  /**
   * Writes one line and its line feed. Nothing in `text` begins another line; a terminal gets a long one broken at
   * spaces.
   */
  line(text: string): void;
  /**
   * Writes a text of several lines, such as a table or a JSON document. Values within must not contain line feeds
   * of others, and are `printable` already if there is anything painted in the text.
   */
  write(text: string): void;
  /** Aborted once the reader is gone (`switchback status | head -1`). Later writes have no effect. */
  readonly closed: AbortSignal;
  /** Width of the terminal at this moment; undefined if it is none. */
  readonly columns: number | undefined;
}

/** Shows on standard error what a command is waiting for, and for how long, once that takes more than 2 s. */
export interface Progress {
  /** Runs `work` and shows `what` meanwhile; a function is asked each time. */
  during<T>(what: string | (() => string), work: () => Promise<T>): Promise<T>;
  /** Removes the line from the terminal, before something else is written there. */
  clear(): void;
}

/** The flags of a command that reads the configuration. */
export interface ConfigFlags {
  readonly config?: string;
  readonly set?: readonly string[];
  /** Takes precedence over `log.format`. */
  readonly logFormat?: "json" | "text";
}
