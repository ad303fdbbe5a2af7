/** The environment and outputs of a command. Only `cli/main.ts` reads those of the process. */
export interface CliContext {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Output;
  readonly stderr: Output;
  readonly progress: Progress;
}

/**
 * Standard output or standard error of a command. Text from tenants cannot control the terminal, whichever command
 * prints it. Once the reader is gone (`switchback status | head -1`), writes have no effect.
 */
export interface Output {
  /** Writes one line with its line feed. Line feeds in `text` do not start a new line. */
  line(text: string): void;
  /**
   * Writes a text of several lines, such as a table or a JSON document. Values from others must not contain line
   * feeds. If the text contains colors, the caller has made these values `printable` already.
   */
  write(text: string): void;
  readonly isTerminal: boolean;
}

/** Says on standard error what a command waits for, when that takes more than 2 s. */
interface Progress {
  during<T>(what: string, work: () => Promise<T>): Promise<T>;
}

/** The flags of a command that reads the configuration. */
export interface ConfigFlags {
  readonly config?: string | undefined;
  readonly set?: readonly string[] | undefined;
}
